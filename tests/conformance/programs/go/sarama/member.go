package main

import (
	"context"
	"fmt"
	"os"

	"github.com/IBM/sarama"

	"moldau/conformance/jobs"
)

var strategies = map[string]func() sarama.BalanceStrategy{
	"range":              sarama.NewBalanceStrategyRange,
	"roundrobin":         sarama.NewBalanceStrategyRoundRobin,
	"sticky":             sarama.NewBalanceStrategySticky,
	"cooperative-sticky": sarama.NewBalanceStrategyCooperativeSticky,
}

func join(wish jobs.Wish, telling *jobs.Telling, over <-chan struct{}) error {
	config := settings()
	config.ClientID = wish.Name
	group := &config.Consumer.Group
	group.InstanceId = wish.Instance
	group.Rebalance.GroupStrategies = nil
	for _, each := range wish.Strategies() {
		group.Rebalance.GroupStrategies = append(
			group.Rebalance.GroupStrategies, strategies[each]())
	}
	group.Session.Timeout = wish.Session()
	group.Heartbeat.Interval = wish.Heartbeat()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Interval = jobs.CommitInterval
	config.Consumer.Return.Errors = false
	consumer, err := sarama.NewConsumerGroup(wish.Servers(), wish.Group, config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-over
		cancel()
	}()
	for ctx.Err() == nil {
		err := consumer.Consume(ctx, []string{wish.Topic}, &reading{wish.Topic, telling})
		if err != nil {
			fmt.Fprintln(os.Stderr, err) // to be called again: a broker that is away comes again
		}
	}
	return consumer.Close()
}

// reading is what sarama calls in each generation.
type reading struct {
	topic   string
	telling *jobs.Telling
}

func (r *reading) Setup(session sarama.ConsumerGroupSession) error {
	r.telling.Came(session.Claims()[r.topic])
	return nil
}

func (r *reading) Cleanup(session sarama.ConsumerGroupSession) error {
	r.telling.Went(session.Claims()[r.topic])
	return nil
}

func (r *reading) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	for message := range claim.Messages() {
		r.telling.Read(jobs.Place{int64(message.Partition), message.Offset})
		session.MarkMessage(message, "")
	}
	return nil
}
