//go:build kafka

package kafkatest

import (
	"testing"
	"time"
)

func TestHelpersOnKafka(t *testing.T) {
	for _, version := range []string{Latest, Previous} {
		t.Run(version, func(t *testing.T) {
			begin := time.Now()
			b := Broker(t, version)
			t.Logf("started in %v", time.Since(begin))
			testHelpers(t, b.Addrs())
		})
	}
}

func TestBrokerKeepsTimestampType(t *testing.T) {
	b := Broker(t, Latest, Property("message.max.bytes", "2000000"))
	CreateTopic(t, b.Addrs(), "stamped", 1, map[string]string{"message.timestamp.type": "LogAppendTime"})
	Produce(t, b.Addrs(), "stamped", []Record{KV("a", "1")})
	if got := ReadAll(t, b.Addrs(), "stamped", false); len(got) != 1 || !got[0].LogAppendTime {
		t.Fatalf("read %+v", got)
	}
}

func TestBrokerLives(t *testing.T) {
	b := Broker(t, Latest)
	CreateTopic(t, b.Addrs(), "kept", 1, nil)
	Produce(t, b.Addrs(), "kept", []Record{KV("a", "1")})
	took := func(what string, f func()) {
		begin := time.Now()
		f()
		t.Logf("%s took %v", what, time.Since(begin))
	}
	took("kill", b.Kill)
	if b.Running() {
		t.Fatal("it runs after kill")
	}
	took("start after kill", b.Start)
	expect(t, "after kill", ReadAll(t, b.Addrs(), "kept", true), "a=1@0")

	took("stop", b.Stop)
	took("start after stop", b.Start)
	Produce(t, b.Addrs(), "kept", []Record{KV("b", "1")})

	b.Pause()
	b.Continue()
	expect(t, "after pause", ReadAll(t, b.Addrs(), "kept", true), "a=1@0 b=1@1")
}

func TestClusterMovesLeaders(t *testing.T) {
	begin := time.Now()
	c := Cluster(t, 3)
	t.Logf("three brokers started in %v", time.Since(begin))
	CreateTopic(t, c.Addrs(), "led", 2, nil)
	Produce(t, c.Addrs(), "led", []Record{KV("a", "1")})
	for _, to := range []int32{1, 2, 3} {
		begin := time.Now()
		c.MoveLeader("led", 0, to)
		t.Logf("moved in %v", time.Since(begin))
		if got := c.Leader("led", 0); got.ID() != to {
			t.Fatalf("the leader is %d, was to be %d", got.ID(), to)
		}
	}
	Produce(t, c.Addrs(), "led", []Record{KV("b", "1")})

	begin = time.Now()
	dead := c.Leader("led", 0)
	dead.Kill()
	Produce(t, c.Addrs(), "led", []Record{KV("c", "1")})
	t.Logf("produced %v after the leader was killed", time.Since(begin))
	if now := c.Leader("led", 0); now.ID() == dead.ID() {
		t.Fatalf("node %d still leads", dead.ID())
	}
	if g := c.Coordinator("somebody"); !g.Running() {
		t.Fatalf("coordinator %d is dead", g.ID())
	}
	dead.Start()
	expect(t, "at the end", ReadAll(t, c.Addrs(), "led", true), "a=1@0 b=1@1 c=1@2")
}
