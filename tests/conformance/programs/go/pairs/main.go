// The client of a case of tests/broker/pairs by franz-go: see program.py there.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const (
	partitions = 4
	workers    = 2
	most       = 40
	batchBytes = 512 // the least that it takes
	idle       = 200 * time.Millisecond
	timeout    = 30 * time.Second
)

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

type piece struct {
	Begin     int
	End       int
	IsAborted bool `json:"is_aborted"`
}

type job struct {
	Case     map[string]string
	Kafka    map[string]string
	Login    map[string]string
	Source   string
	Target   string
	Name     string
	AlsoRead []string `json:"also_read"`

	lock   sync.Mutex
	errors []string
}

func main() {
	input := json.NewDecoder(bufio.NewReader(os.Stdin))
	job := &job{errors: []string{}}
	must(input.Decode(job))
	ctx, stop := context.WithCancel(context.Background())
	var copiers sync.WaitGroup
	for {
		var wish struct {
			Do     string
			Pieces []piece
		}
		if err := input.Decode(&wish); err != nil {
			break
		}
		if wish.Do == "send" {
			must(job.send(wish.Pieces))
			fmt.Println(`{"did": "send"}`)
			continue
		}
		for worker := range workers {
			copiers.Go(func() { job.copy(ctx, worker) })
		}
	}
	stop()
	copiers.Wait()
	must(json.NewEncoder(os.Stdout).Encode(map[string]any{"errors": job.errors}))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (j *job) note(err error) {
	j.lock.Lock()
	defer j.lock.Unlock()
	j.errors = append(j.errors, err.Error())
}

func (j *job) isTransactional() bool {
	return j.Case["sender"] != "plain" && j.Case["sender"] != "idempotent"
}

func (j *job) options() []kgo.Opt {
	found := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(j.Kafka["bootstrap.servers"], ",")...),
		kgo.ClientID(j.Name),
		kgo.MetadataMinAge(500 * time.Millisecond),
		kgo.MetadataMaxAge(time.Second),
	}
	if j.Login == nil {
		return found
	}
	authority, err := os.ReadFile(j.Login["authority"])
	must(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	login := scram.Auth{User: j.Login["user"], Pass: j.Login["password"]}
	return append(found,
		kgo.DialTLSConfig(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}),
		kgo.SASL(login.AsSha512Mechanism()),
	)
}

func (j *job) producing(ending string) []kgo.Opt {
	found := append(j.options(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[j.Case["codec"]]),
		kgo.ProducerBatchMaxBytes(batchBytes),
		kgo.ProducerLinger(0),
	)
	switch j.Case["sender"] {
	case "plain":
		found = append(found, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(5))
	case "transactional": // others have five requests in flight
		found = append(found, kgo.MaxProduceRequestsInflightPerBroker(1))
	}
	if j.isTransactional() {
		found = append(found,
			kgo.TransactionalID(j.Name+"-"+ending),
			kgo.TransactionTimeout(20*time.Second),
		)
	}
	return found
}

func (j *job) send(pieces []piece) error {
	client, err := kgo.NewClient(j.producing("source")...)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx := context.Background()
	for _, each := range pieces {
		if j.isTransactional() {
			if err := client.BeginTransaction(); err != nil {
				return err
			}
		}
		promise := kgo.FirstErrPromise{}
		for number := each.Begin; number < each.End; number++ {
			client.Produce(ctx, &kgo.Record{
				Topic:     j.Source,
				Partition: int32(number % partitions),
				Key:       []byte(fmt.Sprintf("key-%d", number)),
				Value:     []byte(fmt.Sprintf("%d %s", number, strings.Repeat("x", number%50))),
			}, promise.Promise())
		}
		if err := promise.Err(); err != nil {
			return err
		}
		if j.isTransactional() {
			if err := client.EndTransaction(ctx, kgo.TransactionEndTry(!each.IsAborted)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (j *job) copy(ctx context.Context, worker int) {
	for ctx.Err() == nil {
		var err error
		switch {
		case j.isTransactional():
			err = j.copyInTransactions(ctx, worker)
		default:
			err = j.copyOnce(ctx)
		}
		if err != nil && ctx.Err() == nil {
			j.note(err)
		}
	}
}

func (j *job) reading() []kgo.Opt {
	topics := append([]string{j.Source}, j.AlsoRead...)
	if j.Case["group"] == "share" {
		return []kgo.Opt{kgo.ShareGroup(j.Name), kgo.ConsumeTopics(topics...)}
	}
	isolation := kgo.ReadUncommitted()
	if j.Case["isolation"] == "read_committed" {
		isolation = kgo.ReadCommitted()
	}
	found := []kgo.Opt{
		kgo.ConsumerGroup(j.Name),
		kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(isolation),
		kgo.RequireStableFetchOffsets(),
		kgo.SessionTimeout(6 * time.Second),
		kgo.HeartbeatInterval(time.Second),
	}
	if j.Case["group"] == "consumer" {
		found = append(found, kgo.ServerSideBalancer())
	}
	return found
}

func (j *job) copyOnce(ctx context.Context) error {
	options := append(j.producing("copier"), j.reading()...)
	if j.Case["group"] != "share" {
		options = append(options, kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	for ctx.Err() == nil {
		if err := j.copyPiece(ctx, client); err != nil {
			return err
		}
		client.AllowRebalance()
	}
	return nil
}

// One poll, with what it brings sent and then committed.
func (j *job) copyPiece(ctx context.Context, client *kgo.Client) error {
	polling, cancel := context.WithTimeout(ctx, idle)
	defer cancel()
	fetches := client.PollRecords(polling, most)
	if fetches.NumRecords() == 0 {
		return nil // errors of a fetch are retried by the next one
	}
	working, done := context.WithTimeout(context.Background(), timeout)
	defer done()
	promise := kgo.FirstErrPromise{}
	fetches.EachRecord(func(each *kgo.Record) {
		if each.Topic == j.Source {
			client.Produce(working, j.copied(each), promise.Promise())
		}
	})
	if err := promise.Err(); err != nil {
		return err
	}
	if j.Case["group"] == "share" {
		client.MarkAcks(kgo.AckAccept, fetches.Records()...)
		return client.FlushAcks(working)
	}
	return client.CommitRecords(working, fetches.Records()...)
}

func (j *job) copied(each *kgo.Record) *kgo.Record {
	return &kgo.Record{Topic: j.Target, Partition: each.Partition, Key: each.Key, Value: each.Value}
}

func (j *job) copyInTransactions(ctx context.Context, worker int) error {
	options := append(j.producing(fmt.Sprintf("copier-%d", worker)), j.reading()...)
	session, err := kgo.NewGroupTransactSession(options...)
	if err != nil {
		return err
	}
	defer session.Close()
	for ctx.Err() == nil {
		if err := j.copyTransaction(ctx, session); err != nil {
			return err
		}
	}
	return nil
}

// One transaction with what one poll brings. An abort alone is no error: the session rewinds.
func (j *job) copyTransaction(ctx context.Context, session *kgo.GroupTransactSession) error {
	polling, cancel := context.WithTimeout(ctx, idle)
	defer cancel()
	fetches := session.PollRecords(polling, most)
	if fetches.NumRecords() == 0 {
		return nil
	}
	if err := session.Begin(); err != nil {
		return err
	}
	promise := kgo.AbortingFirstErrPromise(session.Client())
	fetches.EachRecord(func(each *kgo.Record) {
		if each.Topic == j.Source {
			session.Produce(context.Background(), j.copied(each), promise.Promise())
		}
	})
	failed := promise.Err()
	if failed != nil {
		j.note(failed)
	}
	_, err := session.End(context.Background(), kgo.TransactionEndTry(failed == nil))
	return err
}
