package main

import (
	"context"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/conformance/jobs"
)

var balancers = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"roundrobin":         kgo.RoundRobinBalancer(),
	"sticky":             kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
	"consumer":           kgo.StickyBalancer(),
}

func join(wish jobs.Wish, telling *jobs.Telling, over <-chan struct{}) error {
	wanted := []kgo.GroupBalancer{}
	for _, each := range wish.Strategies() {
		wanted = append(wanted, balancers[each])
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(wish.Servers()...),
		kgo.ClientID(wish.Name),
		kgo.ConsumerGroup(wish.Group),
		kgo.ConsumeTopics(wish.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.Balancers(wanted...),
		kgo.SessionTimeout(wish.Session()),
		kgo.HeartbeatInterval(wish.Heartbeat()),
		kgo.AutoCommitMarks(),
		kgo.AutoCommitInterval(jobs.CommitInterval),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, came map[string][]int32) {
			telling.Came(came[wish.Topic])
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, c *kgo.Client, went map[string][]int32) {
			_ = c.CommitMarkedOffsets(ctx) // what fails here is read again, which the tests see
			telling.Went(went[wish.Topic])
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, went map[string][]int32) {
			telling.Went(went[wish.Topic])
		}),
	}
	if wish.Instance != "" {
		options = append(options, kgo.InstanceID(wish.Instance))
	}
	if wish.Strategy == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-over
		cancel()
	}()
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			fmt.Fprintln(os.Stderr, err) // it goes on by itself: a broker that is away comes again
		}
		records := fetches.Records()
		for _, each := range records {
			telling.Read(jobs.Place{int64(each.Partition), each.Offset})
		}
		client.MarkCommitRecords(records...)
		client.AllowRebalance()
	}
	return nil
}
