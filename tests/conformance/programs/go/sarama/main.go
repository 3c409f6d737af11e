// Jobs done by sarama.
package main

import (
	"errors"
	"fmt"
	"net"
	"sort"
	"strconv"
	"time"

	"github.com/IBM/sarama"

	"moldau/conformance/jobs"
)

const timeout = 30 * time.Second

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

func main() {
	if jobs.Member(join) {
		return
	}
	jobs.Serve(map[string]func(jobs.Job) (any, error){
		"produce":  produce,
		"consume":  consume,
		"offset":   offset,
		"create":   withAdmin(create),
		"describe": withAdmin(describe),
		"grow":     withAdmin(grow),
		"configs":  withAdmin(configs),
		"alter":    withAdmin(alter),
		"trim":     withAdmin(trim),
		"delete":   withAdmin(remove),
		"topics":   withAdmin(topics),
		"cluster":  cluster,
	})
}

func settings() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.MaxMessageBytes = 10_000_000
	config.Consumer.Return.Errors = true
	return config
}

func produce(job jobs.Job) (any, error) {
	config := settings()
	config.Producer.Compression = codecs[job.Codec]
	config.Producer.RequiredAcks = sarama.RequiredAcks(job.Acks)
	config.Producer.Idempotent = job.Idempotent
	if job.Idempotent {
		config.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer(job.Servers(), config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	messages := make([]*sarama.ProducerMessage, 0, len(job.Records))
	for _, each := range job.Records {
		messages = append(messages, message(job, each))
	}
	var refused sarama.ProducerErrors
	if err := producer.SendMessages(messages); errors.As(err, &refused) {
		return nil, refused[0].Err
	} else if err != nil {
		return nil, err
	}
	offsets := make([]int64, 0, len(messages))
	for _, each := range messages {
		if job.Acks == 0 {
			each.Offset = -1
		}
		offsets = append(offsets, each.Offset)
	}
	return offsets, nil
}

func message(job jobs.Job, record jobs.Record) *sarama.ProducerMessage {
	made := &sarama.ProducerMessage{
		Topic:     job.Topic,
		Partition: job.Partition,
		Timestamp: time.UnixMilli(record.Timestamp),
	}
	if record.Key != nil {
		made.Key = sarama.ByteEncoder(record.Key)
	}
	if record.Value != nil {
		made.Value = sarama.ByteEncoder(record.Value)
	}
	for _, each := range record.Headers {
		made.Headers = append(
			made.Headers, sarama.RecordHeader{Key: []byte(each.Name), Value: each.Value})
	}
	return made
}

func consume(job jobs.Job) (any, error) {
	config := settings()
	if job.ReadCommitted {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	consumer, err := sarama.NewConsumer(job.Servers(), config)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	part, err := consumer.ConsumePartition(job.Topic, job.Partition, job.Start)
	if err != nil {
		return nil, err
	}
	defer part.Close()
	found := make([]jobs.Record, 0, job.Count)
	late := time.After(timeout)
	for len(found) < job.Count {
		select {
		case each := <-part.Messages():
			found = append(found, record(each))
		case failed := <-part.Errors():
			return nil, failed
		case <-late:
			return nil, fmt.Errorf("%d records came", len(found))
		}
	}
	return found, nil
}

func record(message *sarama.ConsumerMessage) jobs.Record {
	made := jobs.Record{
		Key:       message.Key,
		Value:     message.Value,
		Timestamp: message.Timestamp.UnixMilli(),
		Offset:    message.Offset,
	}
	for _, each := range message.Headers {
		made.Headers = append(made.Headers, jobs.Header{Name: string(each.Key), Value: each.Value})
	}
	return made
}

func offset(job jobs.Job) (any, error) {
	client, err := sarama.NewClient(job.Servers(), settings())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var at int64
	switch wanted := job.At.(type) {
	case string:
		at = map[string]int64{
			"earliest": sarama.OffsetOldest, "latest": sarama.OffsetNewest,
		}[wanted]
	case float64:
		at = int64(wanted)
	}
	return client.GetOffset(job.Topic, job.Partition, at)
}

func withAdmin(do func(sarama.ClusterAdmin, jobs.Job) (any, error)) func(jobs.Job) (any, error) {
	return func(job jobs.Job) (any, error) {
		admin, err := sarama.NewClusterAdmin(job.Servers(), settings())
		if err != nil {
			return nil, err
		}
		defer admin.Close()
		return do(admin, job)
	}
}

func create(admin sarama.ClusterAdmin, job jobs.Job) (any, error) {
	entries := map[string]*string{}
	for name, value := range job.Configs {
		entries[name] = &value
	}
	detail := sarama.TopicDetail{
		NumPartitions: job.Partitions, ReplicationFactor: 1, ConfigEntries: entries,
	}
	return true, admin.CreateTopic(job.Topic, &detail, false)
}

func describe(admin sarama.ClusterAdmin, job jobs.Job) (any, error) {
	found, err := admin.DescribeTopics([]string{job.Topic})
	if err != nil {
		return nil, err
	}
	if found[0].Err != sarama.ErrNoError {
		return nil, found[0].Err
	}
	return len(found[0].Partitions), nil
}

func grow(admin sarama.ClusterAdmin, job jobs.Job) (any, error) {
	return true, admin.CreatePartitions(job.Topic, job.Partitions, nil, false)
}

func configs(admin sarama.ClusterAdmin, job jobs.Job) (any, error) {
	entries, err := admin.DescribeConfig(
		sarama.ConfigResource{Type: sarama.TopicResource, Name: job.Topic})
	values := map[string]string{}
	for _, each := range entries {
		values[each.Name] = each.Value
	}
	return values, err
}

func alter(admin sarama.ClusterAdmin, job jobs.Job) (any, error) {
	entry := sarama.IncrementalAlterConfigsEntry{
		Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &job.Value,
	}
	entries := map[string]sarama.IncrementalAlterConfigsEntry{job.Name: entry}
	return true, admin.IncrementalAlterConfig(sarama.TopicResource, job.Topic, entries, false)
}

func trim(admin sarama.ClusterAdmin, job jobs.Job) (any, error) {
	return true, admin.DeleteRecords(job.Topic, map[int32]int64{job.Partition: job.Before})
}

func remove(admin sarama.ClusterAdmin, job jobs.Job) (any, error) {
	return true, admin.DeleteTopic(job.Topic)
}

func topics(admin sarama.ClusterAdmin, _ jobs.Job) (any, error) {
	found, err := admin.ListTopics()
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	sort.Strings(names)
	return names, err
}

func cluster(job jobs.Job) (any, error) {
	broker := sarama.NewBroker(job.Servers()[0])
	if err := broker.Open(settings()); err != nil {
		return nil, err
	}
	defer broker.Close()
	found, err := broker.GetMetadata(sarama.NewMetadataRequest(sarama.V2_8_0_0, []string{}))
	if err != nil {
		return nil, err
	}
	if found.ClusterID == nil {
		return nil, errors.New("the cluster has no id")
	}
	told := jobs.Cluster{ID: *found.ClusterID}
	for _, each := range found.Brokers {
		host, port, err := net.SplitHostPort(each.Addr())
		if err != nil {
			return nil, err
		}
		number, err := strconv.Atoi(port)
		if err != nil {
			return nil, err
		}
		told.Brokers = append(told.Brokers, []any{each.ID(), host, number})
	}
	return told, nil
}
