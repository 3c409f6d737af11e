// Package jobs reads jobs as lines of JSON and writes their answers (see program.py).
package jobs

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Header is a pair of a name and a value that may be null.
type Header struct {
	Name  string
	Value []byte
}

// Record is one record as the tests see it. Null is nil, empty is not.
type Record struct {
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []Header `json:"headers"`
	Timestamp int64    `json:"timestamp"`
	Offset    int64    `json:"offset"`
}

// Job is one line that came in, all kinds in one.
type Job struct {
	Do            string            `json:"do"`
	Bootstrap     string            `json:"bootstrap"`
	Topic         string            `json:"topic"`
	Partition     int32             `json:"partition"`
	Records       []Record          `json:"records"`
	Codec         string            `json:"codec"`
	Acks          int16             `json:"acks"`
	Idempotent    bool              `json:"idempotent"`
	Start         int64             `json:"start"`
	Count         int               `json:"count"`
	ReadCommitted bool              `json:"read_committed"`
	At            any               `json:"at"`
	Partitions    int32             `json:"partitions"`
	Configs       map[string]string `json:"configs"`
	Name          string            `json:"name"`
	Value         string            `json:"value"`
	Before        int64             `json:"before"`
}

// Servers are the addresses to begin with.
func (j Job) Servers() []string { return strings.Split(j.Bootstrap, ",") }

// Cluster is the answer to the job of that name.
type Cluster struct {
	ID      string  `json:"id"`
	Brokers [][]any `json:"brokers"`
}

// MarshalJSON makes a pair of it.
func (h Header) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{h.Name, h.Value})
}

// UnmarshalJSON takes a pair.
func (h *Header) UnmarshalJSON(told []byte) error {
	return json.Unmarshal(told, &[]any{&h.Name, &h.Value})
}

// Serve answers jobs until the input ends.
func Serve(does map[string]func(Job) (any, error)) {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		answer := map[string]any{}
		done, err := run(does, line)
		if err != nil {
			answer["error"] = err.Error()
		} else {
			answer["ok"] = done
		}
		if err := out.Encode(answer); err != nil {
			return
		}
	}
}

func run(does map[string]func(Job) (any, error), line []byte) (any, error) {
	var job Job
	if err := json.Unmarshal(line, &job); err != nil {
		return nil, err
	}
	do, there := does[job.Do]
	if !there {
		return nil, fmt.Errorf("no such job: %s", job.Do)
	}
	return do(job)
}
