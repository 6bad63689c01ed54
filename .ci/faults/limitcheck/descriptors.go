package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const maxDescriptors = 96

func descriptors(ctx context.Context, n *node) error {
	if err := n.start(ctx, []string{"prlimit", fmt.Sprintf("--nofile=%d", maxDescriptors), "--"}); err != nil {
		return err
	}
	cl, err := n.client(kgo.DefaultProduceTopic("before"), kgo.ConsumeTopics("before"))
	if err != nil {
		return err
	}
	defer cl.Close()
	sent := 0
	echo := func() error {
		value := fmt.Sprint("v", sent)
		sent++
		if err := cl.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr(); err != nil {
			return fmt.Errorf("produce: %w", err)
		}
		for {
			for _, r := range cl.PollFetches(ctx).Records() {
				if string(r.Value) == value {
					return nil
				}
			}
			if ctx.Err() != nil {
				return fmt.Errorf("fetch %s: %w", value, ctx.Err())
			}
		}
	}
	if err := echo(); err != nil {
		return err
	}
	// Another client, whose connections are open too.
	other, err := n.client()
	if err != nil {
		return err
	}
	defer other.Close()
	admin := kadm.NewClient(other)
	if _, err := admin.CreateTopic(ctx, 1, 1, nil, "warm"); err != nil {
		return err
	}
	var flood []net.Conn
	shut := func() {
		for _, c := range flood {
			_ = c.Close()
		}
	}
	defer shut()
	for range 2 * maxDescriptors {
		c, err := net.Dial("tcp", n.addr())
		if err != nil {
			return err
		}
		flood = append(flood, c)
	}
	const refusal = "cannot accept a connection"
	if err := n.until(ctx, refusal, func() bool { return n.logHas(refusal) }); err != nil {
		return fmt.Errorf("the descriptors have not run out: %w", err)
	}
	used, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", n.process.Process.Pid))
	fmt.Printf("%d connections, %d of %d descriptors in use\n", len(flood), len(used), maxDescriptors)
	for range 50 {
		if err := echo(); err != nil {
			return fmt.Errorf("a connection that was open before: %w", err)
		}
	}
	// Topics that need files: made, or refused with an error that says so.
	made, refused := 0, map[string]int{}
	for i := range 12 {
		_, err := admin.CreateTopic(ctx, 3, 1, nil, fmt.Sprint("pressed", i))
		if err == nil {
			made++
		} else {
			refused[err.Error()]++
		}
	}
	fmt.Printf("topics under pressure: %d made, refused: %v\n", made, refused)
	if err := echo(); err != nil {
		return err
	}
	shut()
	if err := n.until(ctx, "a new connection is served", func() bool { return n.serves(ctx) }); err != nil {
		return err
	}
	if _, err := admin.CreateTopic(ctx, 3, 1, nil, "after"); err != nil {
		return fmt.Errorf("create a topic when there are descriptors again: %w", err)
	}
	for i := range 12 { // what could not be made before can be now, and what was made is whole
		topic := fmt.Sprint("pressed", i)
		if _, err := admin.CreateTopic(ctx, 3, 1, nil, topic); err != nil && made == 0 {
			return fmt.Errorf("create %s again: %w", topic, err)
		}
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr(); err != nil {
			return fmt.Errorf("produce to %s: %w", topic, err)
		}
	}
	if !n.alive() {
		return errors.New("the broker has ended")
	}
	fmt.Println("ok: descriptors")
	return echo()
}

func (n *node) alive() bool {
	select {
	case <-n.ended:
		return false
	default:
		return true
	}
}

// serves tells whether a new client is answered.
func (n *node) serves(ctx context.Context) bool {
	cl, err := n.client()
	if err != nil {
		return false
	}
	defer cl.Close()
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return cl.Ping(short) == nil
}
