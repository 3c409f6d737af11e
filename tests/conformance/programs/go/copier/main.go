// Copies one topic into another in transactions, by franz-go, until it is killed.
// Arguments: bootstrap servers, source, target, name.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	servers, source, target, name := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	for {
		err := copyAll(strings.Split(servers, ","), source, target, name)
		fmt.Println(time.Now().Format(time.RFC3339), "begins again after:", err)
		time.Sleep(200 * time.Millisecond)
	}
}

func copyAll(servers []string, source, target, name string) error {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(servers...),
		kgo.ConsumerGroup(target),
		kgo.ConsumeTopics(source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.TransactionalID(name),
		kgo.TransactionTimeout(20*time.Second),
		kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(time.Second),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		return err
	}
	defer session.Close()
	for {
		if err := copyOnce(session, target); err != nil {
			return err
		}
	}
}

// One transaction with what one poll brings. An abort alone is no error: the session rewinds.
func copyOnce(session *kgo.GroupTransactSession, target string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	fetches := session.PollRecords(ctx, 50)
	if fetches.NumRecords() == 0 {
		return nil
	}
	if err := session.Begin(); err != nil {
		return err
	}
	promise := kgo.AbortingFirstErrPromise(session.Client())
	fetches.EachRecord(func(each *kgo.Record) {
		made := &kgo.Record{Topic: target, Partition: each.Partition, Value: each.Value}
		session.Produce(context.Background(), made, promise.Promise())
	})
	commit := kgo.TransactionEndTry(promise.Err() == nil)
	_, err := session.End(context.Background(), commit)
	return err
}
