// Jobs done by franz-go.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/conformance/jobs"
)

const timeout = 30 * time.Second

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

var acks = map[int16]kgo.Acks{0: kgo.NoAck(), 1: kgo.LeaderAck(), -1: kgo.AllISRAcks()}

func main() {
	if jobs.Member(join) {
		return
	}
	jobs.Serve(map[string]func(jobs.Job) (any, error){
		"produce":  produce,
		"consume":  consume,
		"offset":   withAdmin(offset),
		"create":   withAdmin(create),
		"describe": withAdmin(describe),
		"grow":     withAdmin(grow),
		"configs":  withAdmin(configs),
		"alter":    withAdmin(alter),
		"trim":     withAdmin(trim),
		"delete":   withAdmin(remove),
		"topics":   withAdmin(topics),
		"cluster":  withAdmin(cluster),
	})
}

func produce(job jobs.Job) (any, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(job.Servers()...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[job.Codec]),
		kgo.RequiredAcks(acks[job.Acks]),
		kgo.ProducerBatchMaxBytes(10_000_000),
		kgo.ProducerLinger(5 * time.Millisecond),
	}
	if !job.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	records := make([]*kgo.Record, 0, len(job.Records))
	for _, each := range job.Records {
		records = append(records, record(job, each))
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return nil, err
	}
	offsets := make([]int64, 0, len(records))
	for _, each := range records {
		if job.Acks == 0 {
			each.Offset = -1
		}
		offsets = append(offsets, each.Offset)
	}
	return offsets, nil
}

func record(job jobs.Job, told jobs.Record) *kgo.Record {
	made := &kgo.Record{
		Topic:     job.Topic,
		Partition: job.Partition,
		Key:       told.Key,
		Value:     told.Value,
		Timestamp: time.UnixMilli(told.Timestamp),
	}
	for _, each := range told.Headers {
		made.Headers = append(made.Headers, kgo.RecordHeader{Key: each.Name, Value: each.Value})
	}
	return made
}

func consume(job jobs.Job) (any, error) {
	isolation := kgo.ReadUncommitted()
	if job.ReadCommitted {
		isolation = kgo.ReadCommitted()
	}
	where := map[string]map[int32]kgo.Offset{
		job.Topic: {job.Partition: kgo.NewOffset().At(job.Start)},
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(job.Servers()...),
		kgo.ConsumePartitions(where),
		kgo.FetchIsolationLevel(isolation),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	found := make([]jobs.Record, 0, job.Count)
	for len(found) < job.Count {
		fetches := client.PollRecords(ctx, job.Count-len(found))
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("after %d records: %w", len(found), err)
		}
		for _, each := range fetches.Records() {
			found = append(found, stored(each))
		}
	}
	return found, nil
}

func stored(record *kgo.Record) jobs.Record {
	made := jobs.Record{
		Key:       record.Key,
		Value:     record.Value,
		Timestamp: record.Timestamp.UnixMilli(),
		Offset:    record.Offset,
	}
	for _, each := range record.Headers {
		made.Headers = append(made.Headers, jobs.Header{Name: each.Key, Value: each.Value})
	}
	return made
}

type administration func(context.Context, *kadm.Client, jobs.Job) (any, error)

func withAdmin(do administration) func(jobs.Job) (any, error) {
	return func(job jobs.Job) (any, error) {
		client, err := kgo.NewClient(kgo.SeedBrokers(job.Servers()...))
		if err != nil {
			return nil, err
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		return do(ctx, kadm.NewClient(client), job)
	}
}

func offset(ctx context.Context, admin *kadm.Client, job jobs.Job) (any, error) {
	var found kadm.ListedOffsets
	var err error
	switch wanted := job.At.(type) {
	case float64:
		// Where there is no such record kadm looks up the end by itself and tells no timestamp.
		found, err = admin.ListOffsetsAfterMilli(ctx, int64(wanted), job.Topic)
		each, _ := found.Lookup(job.Topic, job.Partition)
		if err == nil && each.Err == nil && each.Timestamp < 0 {
			return -1, nil
		}
	case string:
		if wanted == "earliest" {
			found, err = admin.ListStartOffsets(ctx, job.Topic)
		} else {
			found, err = admin.ListEndOffsets(ctx, job.Topic)
		}
	}
	if err != nil {
		return nil, err
	}
	each, there := found.Lookup(job.Topic, job.Partition)
	if !there {
		return nil, fmt.Errorf("no answer for partition %d", job.Partition)
	}
	return each.Offset, each.Err
}

func create(ctx context.Context, admin *kadm.Client, job jobs.Job) (any, error) {
	configs := map[string]*string{}
	for name, value := range job.Configs {
		configs[name] = &value
	}
	_, err := admin.CreateTopic(ctx, job.Partitions, 1, configs, job.Topic)
	return true, err
}

func describe(ctx context.Context, admin *kadm.Client, job jobs.Job) (any, error) {
	found, err := admin.ListTopics(ctx, job.Topic)
	if err != nil {
		return nil, err
	}
	return len(found[job.Topic].Partitions), found[job.Topic].Err
}

func grow(ctx context.Context, admin *kadm.Client, job jobs.Job) (any, error) {
	done, err := admin.UpdatePartitions(ctx, int(job.Partitions), job.Topic)
	if err != nil {
		return nil, err
	}
	return true, done.Error()
}

func configs(ctx context.Context, admin *kadm.Client, job jobs.Job) (any, error) {
	found, err := admin.DescribeTopicConfigs(ctx, job.Topic)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for _, each := range found[0].Configs {
		values[each.Key] = each.MaybeValue()
	}
	return values, found[0].Err
}

func alter(ctx context.Context, admin *kadm.Client, job jobs.Job) (any, error) {
	change := kadm.AlterConfig{Op: kadm.SetConfig, Name: job.Name, Value: &job.Value}
	done, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{change}, job.Topic)
	if err != nil {
		return nil, err
	}
	return true, done[0].Err
}

func trim(ctx context.Context, admin *kadm.Client, job jobs.Job) (any, error) {
	before := kadm.Offsets{}
	before.AddOffset(job.Topic, job.Partition, job.Before, -1)
	done, err := admin.DeleteRecords(ctx, before)
	if err != nil {
		return nil, err
	}
	each, _ := done.Lookup(job.Topic, job.Partition)
	if each.Err == nil && each.LowWatermark != job.Before {
		return nil, fmt.Errorf("the log starts at %d", each.LowWatermark)
	}
	return true, each.Err
}

func remove(ctx context.Context, admin *kadm.Client, job jobs.Job) (any, error) {
	done, err := admin.DeleteTopic(ctx, job.Topic)
	if err != nil {
		return nil, err
	}
	return true, done.Err
}

func topics(ctx context.Context, admin *kadm.Client, _ jobs.Job) (any, error) {
	found, err := admin.ListTopics(ctx)
	return found.Names(), err
}

func cluster(ctx context.Context, admin *kadm.Client, _ jobs.Job) (any, error) {
	found, err := admin.BrokerMetadata(ctx)
	told := jobs.Cluster{ID: found.Cluster}
	for _, each := range found.Brokers {
		told.Brokers = append(told.Brokers, []any{each.NodeID, each.Host, each.Port})
	}
	return told, err
}
