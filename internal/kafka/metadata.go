package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Topic is what the cluster says of a topic. Err is a code of the whole topic, as
// UNKNOWN_TOPIC_OR_PARTITION; the rest is then empty.
type Topic struct {
	Name       string
	ID         [16]byte // zero: the broker has no topic ids
	Err        error
	Partitions []Partition // by index
}

// Partition is one partition of a Topic.
type Partition struct {
	Index, Leader, LeaderEpoch int32 // -1: none
	Err                        error
}

// TopicPartition names a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

func (tp TopicPartition) String() string { return tp.Topic + "-" + strconv.Itoa(int(tp.Partition)) }

// known is a topic in the cache, as of the time its request was sent (zero: a leader is forgotten,
// and only the epochs still count). Its partitions are never changed, for callers share them.
type known struct {
	topic Topic
	at    time.Time
}

// Topics tells what is known of topics, asking for what is older than MetadataMaxAge. A topic
// that does not exist has its Err set.
func (c *Client) Topics(ctx context.Context, names ...string) (map[string]Topic, error) {
	ctx, end := c.begin(ctx)
	defer end()
	return c.knownTopics(ctx, names)
}

// knownTopics is Topics for calls that have begun.
func (c *Client) knownTopics(ctx context.Context, names []string) (map[string]Topic, error) {
	found := make(map[string]Topic, len(names))
	var missing []string
	since := time.Now().Add(-c.cfg.MetadataMaxAge)
	for _, name := range names {
		if topic, ok := c.cached(name, since); ok {
			found[name] = topic
		} else {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return found, nil
	}
	fresh, err := c.refresh(ctx, missing...)
	if err != nil {
		return nil, err
	}
	for name, topic := range fresh {
		found[name] = topic
	}
	return found, nil
}

// Refresh asks the cluster about topics now.
func (c *Client) Refresh(ctx context.Context, names ...string) (map[string]Topic, error) {
	ctx, end := c.begin(ctx)
	defer end()
	return c.refresh(ctx, names...)
}

func (c *Client) cached(name string, since time.Time) (Topic, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, ok := c.topics[name]
	if !ok || entry.at.Before(since) {
		return Topic{}, false
	}
	return entry.topic, true
}

// refresh asks any broker about its cluster and the topics. Callers that ask at the same time for
// the same, as all partitions of a lost leader do, share one answer.
func (c *Client) refresh(ctx context.Context, names ...string) (map[string]Topic, error) {
	asked := time.Now()
	select {
	case c.refreshing <- struct{}{}:
		defer func() { <-c.refreshing }()
	case <-ctx.Done():
		return nil, c.unreachable(ctx, nil)
	}
	if topics, ok := c.answered(asked, names); ok {
		return topics, nil
	}
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // not nil, which means all
	wanted := make(map[string]bool, len(names))
	for _, name := range names {
		wanted[name] = true
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, topic)
	}
	sent := time.Now()
	answer, err := c.any(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("asking for metadata: %w", err)
	}
	resp := answer.(*kmsg.MetadataResponse)
	if n := len(resp.Brokers); n > maxBrokers {
		return nil, fmt.Errorf("asking for metadata: the answer names %d brokers, at most %d are believed", n, maxBrokers)
	}
	c.setNodes(resp, sent)
	topics := make(map[string]Topic, len(names))
	for i := range resp.Topics {
		if topic := &resp.Topics[i]; topic.Topic != nil && wanted[*topic.Topic] { // nothing else is kept
			topics[*topic.Topic] = c.learn(topic, sent)
		}
	}
	for _, name := range names {
		if _, ok := topics[name]; !ok {
			topics[name] = Topic{Name: name, Err: &Error{Code: codeUnknownTopic, What: "topic " + name}}
		}
	}
	return topics, nil
}

// answered tells whether a request that was sent since then has brought all that is asked for.
func (c *Client) answered(since time.Time, names []string) (map[string]Topic, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	topics := make(map[string]Topic, len(names))
	for _, name := range names {
		if entry, ok := c.topics[name]; !ok || entry.at.Before(since) {
			return nil, false
		}
		topics[name] = c.topics[name].topic
	}
	return topics, !c.nodesAt.Before(since)
}

// setNodes takes over the addresses of the cluster. A broker whose address is gone loses its
// connections when they are idle.
func (c *Client) setNodes(resp *kmsg.MetadataResponse, sent time.Time) {
	if len(resp.Brokers) == 0 {
		return // a broker that is starting
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.brokers == nil {
		return
	}
	c.controller, c.nodesAt = resp.ControllerID, sent
	keep := make(map[string]bool, len(resp.Brokers)+len(c.cfg.Bootstrap))
	for _, address := range c.cfg.Bootstrap {
		keep[address] = true
	}
	clear(c.nodes)
	for _, node := range resp.Brokers {
		keep[c.setNode(node.NodeID, node.Host, node.Port)] = true
	}
	for address, b := range c.brokers {
		if !keep[address] {
			delete(c.brokers, address)
			b.drop(nil, nil)
		}
	}
}

// setNode needs c.mu.
func (c *Client) setNode(node int32, host string, port int32) string {
	address := net.JoinHostPort(host, strconv.Itoa(int(port)))
	c.nodes[node] = address
	if c.brokers[address] == nil {
		c.brokers[address] = &broker{client: c, address: address}
	}
	return address
}

// What is believed of a cluster; Kafka itself works with a tenth of it.
const (
	maxBrokers    = 10_000
	maxPartitions = 200_000 // of one topic
)

// learn puts a topic of the answer to a request sent at that time into the cache.
func (c *Client) learn(from *kmsg.MetadataResponseTopic, sent time.Time) Topic {
	topic := Topic{ID: from.TopicID}
	if from.Topic != nil {
		topic.Name = *from.Topic
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if from.ErrorCode != 0 {
		topic.Err = c.codeError(from.ErrorCode, "topic "+topic.Name, topic.Name, "Describe")
		if from.ErrorCode == codeUnknownTopic {
			delete(c.topics, topic.Name)
		}
		return topic
	}
	if n := len(from.Partitions); n > maxPartitions {
		topic.Err = fmt.Errorf("topic %s has %d partitions by the broker's word, at most %d are believed", topic.Name, n, maxPartitions)
		return topic
	}
	topic.Partitions = make([]Partition, len(from.Partitions))
	for i := range topic.Partitions {
		topic.Partitions[i] = Partition{Index: int32(i), Leader: -1, LeaderEpoch: -1}
	}
	for _, p := range from.Partitions {
		if p.Partition < 0 || int(p.Partition) >= len(topic.Partitions) {
			continue
		}
		to := &topic.Partitions[p.Partition]
		to.Leader, to.LeaderEpoch = p.Leader, p.LeaderEpoch
		if p.ErrorCode != 0 {
			to.Err = &Error{Code: p.ErrorCode, What: "partition " + TopicPartition{topic.Name, p.Partition}.String()}
		}
	}
	if before, ok := c.topics[topic.Name]; ok {
		keepNewer(topic, before.topic)
	}
	c.topics[topic.Name] = known{topic: topic, at: sent}
	return topic
}

// keepNewer holds on to leaders of a later epoch than the answer's, which came from a broker that
// has not heard of the change. INVARIANT: an epoch goes back only with another topic id.
func keepNewer(topic, before Topic) {
	if topic.ID != before.ID || topic.ID == ([16]byte{}) {
		return
	}
	for i := range topic.Partitions {
		if i < len(before.Partitions) && before.Partitions[i].LeaderEpoch > topic.Partitions[i].LeaderEpoch {
			topic.Partitions[i] = before.Partitions[i]
		}
	}
}

// Leader tells the leader of a partition and its epoch (-1: not known). While there is none it
// asks again until the context ends; a topic or partition that does not exist is an error at once.
func (c *Client) Leader(ctx context.Context, tp TopicPartition) (node, leaderEpoch int32, err error) {
	ctx, end := c.begin(ctx)
	defer end()
	return c.leader(ctx, tp)
}

func (c *Client) leader(ctx context.Context, tp TopicPartition) (node, leaderEpoch int32, err error) {
	if topic, ok := c.cached(tp.Topic, time.Now().Add(-c.cfg.MetadataMaxAge)); ok {
		if p, err := topic.at(tp.Partition); err == nil {
			return p.Leader, p.LeaderEpoch, nil
		}
	}
	var said error
	for attempt := 0; ; attempt++ {
		topics, err := c.refresh(ctx, tp.Topic)
		if err != nil {
			return -1, -1, endOf(ctx, said, fmt.Errorf("finding the leader of %s: %w", tp, err))
		}
		topic := topics[tp.Topic]
		p, err := topic.at(tp.Partition)
		if err == nil {
			return p.Leader, p.LeaderEpoch, nil
		}
		if code, _ := CodeOf(err); code == codeUnknownTopic || !Retriable(err) {
			return -1, -1, err
		}
		if said = err; !Pause(ctx, attempt) {
			return -1, -1, endOf(ctx, said, err)
		}
	}
}

// at finds a partition that has a leader.
func (t *Topic) at(partition int32) (Partition, error) {
	if t.Err != nil {
		return Partition{}, t.Err
	}
	tp := TopicPartition{t.Name, partition}
	if partition < 0 || int(partition) >= len(t.Partitions) {
		return Partition{}, &Error{Code: codeUnknownTopic, What: "partition " + tp.String()}
	}
	p := t.Partitions[partition]
	if p.Leader < 0 {
		return p, &Error{Code: codeLeaderNotAvailable, What: "finding the leader of " + tp.String()}
	}
	return p, nil
}

// ForgetLeader makes the next Leader ask the cluster: to be called on any error of a request to
// the leader that may mean that it changed.
func (c *Client) ForgetLeader(tp TopicPartition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, ok := c.topics[tp.Topic]
	if !ok || tp.Partition < 0 || int(tp.Partition) >= len(entry.topic.Partitions) {
		return
	}
	entry.at = time.Time{}
	c.topics[tp.Topic] = entry
}

func (c *Client) forgetController() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.controller = -1
}

func (c *Client) findController(ctx context.Context) (int32, error) {
	for attempt := 0; ; attempt++ {
		c.mu.Lock()
		node := c.controller
		c.mu.Unlock()
		if node >= 0 {
			return node, nil
		}
		if _, err := c.refresh(ctx); err != nil {
			return -1, fmt.Errorf("finding the controller: %w", err)
		}
		c.mu.Lock()
		node = c.controller
		c.mu.Unlock()
		if node < 0 && !Pause(ctx, attempt) {
			return -1, c.unreachable(ctx, errors.New("the cluster has no controller"))
		}
	}
}
