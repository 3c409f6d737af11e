// Registers, checks and looks up a schema with franz-go's registry client.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/twmb/franz-go/pkg/sr"
)

func main() {
	url, text, next, bad := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	ctx := context.Background()
	client, err := sr.NewClient(sr.URLs(url))
	check(err)
	subject := "franz-value"
	made, err := client.CreateSchema(ctx, subject, sr.Schema{Schema: text})
	check(err)
	found, err := client.SchemaByID(ctx, made.ID)
	check(err)
	good, err := client.CheckCompatibility(ctx, subject, -1, sr.Schema{Schema: next})
	check(err)
	worse, err := client.CheckCompatibility(ctx, subject, -1, sr.Schema{Schema: bad})
	check(err)
	versions, err := client.SubjectVersions(ctx, subject)
	check(err)
	_, err = client.SchemaByID(ctx, 1<<30)
	var refused *sr.ResponseError
	if !errors.As(err, &refused) {
		log.Fatalf("a missing schema gave %v", err)
	}
	told, err := json.Marshal(map[string]any{
		"id": made.ID, "text": found.Schema, "good": good.Is, "worse": worse.Is,
		"versions": versions, "missing": refused.ErrorCode,
	})
	check(err)
	fmt.Println(string(told))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
