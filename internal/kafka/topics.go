package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TopicSpec is a topic to be created, with the broker's default replication.
type TopicSpec struct {
	Name       string
	Partitions int32
	Configs    map[string]string
}

// CreateTopics creates topics and waits until they have leaders. The result has every topic, with
// nil for those that exist now, whoever made them; that they have the wished partitions is not
// checked.
func (c *Client) CreateTopics(ctx context.Context, specs ...TopicSpec) map[string]error {
	ctx, end := c.begin(ctx)
	defer end()
	results := make(map[string]error, len(specs))
	for attempt := 0; len(specs) > 0; attempt++ {
		var again []TopicSpec
		outcome, err := c.createTopics(ctx, specs)
		for _, spec := range specs {
			failure := err
			if err == nil {
				failure = outcome[spec.Name]
			}
			if code, _ := CodeOf(failure); code == codeTopicExists {
				failure = nil
			}
			if _, told := CodeOf(failure); ctx.Err() != nil && failure != nil && !told && results[spec.Name] != nil {
				failure = results[spec.Name] // what Kafka said before says more than that the time was over
			}
			results[spec.Name] = failure
			if Retriable(failure) || tooFewBrokers(failure) && attempt < fewBrokersAttempts {
				again = append(again, spec)
			}
		}
		if specs = again; len(specs) > 0 && !Pause(ctx, attempt) {
			break
		}
	}
	c.awaitLeaders(ctx, results)
	return results
}

// fewBrokersAttempts is how often creation is tried while there are fewer brokers than the default
// replication factor: about five seconds.
const fewBrokersAttempts = 10

// tooFewBrokers tells of what may pass by itself: brokers that have just started, or that were too busy
// to be heard, are fenced for a moment, and do not count.
func tooFewBrokers(err error) bool {
	code, _ := CodeOf(err)
	return code == codeBadReplicationFactor
}

func (c *Client) createTopics(ctx context.Context, specs []TopicSpec) (map[string]error, error) {
	req := kmsg.NewPtrCreateTopicsRequest()
	deadline, _ := ctx.Deadline()
	req.TimeoutMillis = int32(min(c.cfg.RequestTimeout, time.Until(deadline)).Milliseconds())
	for _, spec := range specs {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = spec.Name, spec.Partitions, -1
		for name, value := range spec.Configs {
			config := kmsg.NewCreateTopicsRequestTopicConfig()
			config.Name, config.Value = name, kmsg.StringPtr(value)
			topic.Configs = append(topic.Configs, config)
		}
		req.Topics = append(req.Topics, topic)
	}
	answer, err := c.toController(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("creating topics: %w", err)
	}
	outcome := make(map[string]error, len(specs))
	for _, spec := range specs {
		outcome[spec.Name] = fmt.Errorf("creating topic %s: the answer does not hold it", spec.Name)
	}
	for _, topic := range answer.(*kmsg.CreateTopicsResponse).Topics {
		outcome[topic.Topic] = nil
		if topic.ErrorCode == 0 {
			continue
		}
		if topic.ErrorCode == codeNotController {
			c.forgetController()
		}
		what := "creating topic " + topic.Topic
		if topic.ErrorMessage != nil && *topic.ErrorMessage != "" {
			what += " (" + *topic.ErrorMessage + ")"
		}
		outcome[topic.Topic] = c.codeError(topic.ErrorCode, what, topic.Topic, "Create")
	}
	return outcome, nil
}

// awaitLeaders waits until the topics that exist are known to the brokers, for a new topic is
// unknown to them for a moment. Should the context end first, later calls will see to it.
func (c *Client) awaitLeaders(ctx context.Context, results map[string]error) {
	var names []string
	for name, err := range results {
		if err == nil {
			names = append(names, name)
		}
	}
	for attempt := 0; len(names) > 0; attempt++ {
		topics, err := c.refresh(ctx, names...)
		if err != nil {
			return
		}
		var waiting []string
		for _, name := range names {
			if topic := topics[name]; !topic.led() {
				waiting = append(waiting, name)
			}
		}
		if names = waiting; len(names) > 0 && !Pause(ctx, attempt) {
			return
		}
	}
}

func (t *Topic) led() bool {
	for i := range t.Partitions {
		if _, err := t.at(int32(i)); err != nil {
			return false
		}
	}
	return t.Err == nil && len(t.Partitions) > 0
}

// TopicConfigs reads configs of a topic, as they are in force: the keys asked for, or all. A config
// that has no value is "".
func (c *Client) TopicConfigs(ctx context.Context, topic string, keys ...string) (map[string]string, error) {
	ctx, end := c.begin(ctx)
	defer end()
	what := "reading the configs of topic " + topic
	for attempt := 0; ; attempt++ {
		req := kmsg.NewPtrDescribeConfigsRequest()
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType, resource.ResourceName, resource.ConfigNames = kmsg.ConfigResourceTypeTopic, topic, keys
		req.Resources = append(req.Resources, resource)
		answer, err := c.any(ctx, req)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		resp := answer.(*kmsg.DescribeConfigsResponse)
		if len(resp.Resources) != 1 {
			return nil, fmt.Errorf("%s: %w", what, errors.New("the answer does not hold it"))
		}
		if code := resp.Resources[0].ErrorCode; code != 0 {
			err := c.codeError(code, what, topic, "DescribeConfigs")
			if code == codeUnknownTopic || !Retriable(err) || !Pause(ctx, attempt) {
				return nil, err
			}
			continue
		}
		configs := make(map[string]string, len(resp.Resources[0].Configs))
		for _, config := range resp.Resources[0].Configs {
			if configs[config.Name] = ""; config.Value != nil {
				configs[config.Name] = *config.Value
			}
		}
		return configs, nil
	}
}
