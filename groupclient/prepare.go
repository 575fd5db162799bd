package groupclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pillion/pillion/internal/kafka"
)

// PrepareOptions are the settings that a declaration is checked with.
type PrepareOptions struct {
	Group         string
	AllowedTopics []string // exact names or "prefix*"; empty: every topic
	CreateMissing int32    // development: partitions of missing sources, globals and outputs; 0: refuse
}

// admin is what Prepare needs of kafka.Client.
type admin interface {
	Refresh(ctx context.Context, names ...string) (map[string]kafka.Topic, error)
	CreateTopics(ctx context.Context, specs ...kafka.TopicSpec) map[string]error
	TopicConfigs(ctx context.Context, topic string, keys ...string) (map[string]string, error)
}

// Prepare checks a declaration against Kafka and creates the changelogs that are missing. What it
// refuses is a RefusedError of one sentence: what, where, what to do. Any other error says that
// Kafka did not answer.
//
// The order: the declaration by itself, allowed topics, topics that exist, flat sources and tables put
// into sets, equal counts within each set, changelogs created, their counts and clean-up checked.
//
// INVARIANT: a declaration that is refused for what its topics are leaves no changelog behind, which
// would have the wrong number of partitions once the topics have been put right.
func Prepare(ctx context.Context, client *kafka.Client, opts PrepareOptions, d Declaration) (Prepared, error) {
	return prepare(ctx, client, opts, d)
}

func prepare(ctx context.Context, client admin, opts PrepareOptions, d Declaration) (Prepared, error) {
	p := &preparation{client: client, opts: opts, declared: d}
	for _, step := range []func(context.Context) error{
		p.checkDeclaration, p.find, p.createMissing, p.findAgain, p.checkExisting, p.group, p.checkCounts, p.createChangelogs, p.checkExisting, p.checkCounts, p.checkPolicies,
	} {
		if err := step(ctx); err != nil {
			return Prepared{}, err
		}
	}
	return p.prepared(), nil
}

type preparation struct {
	client   admin
	opts     PrepareOptions
	declared Declaration
	roles    map[string][]role
	names    []string // of all topics, sorted
	topics   map[string]kafka.Topic
	created  map[string]bool
	warnings []string
}

func (p *preparation) checkDeclaration(context.Context) error {
	roles, err := p.declared.roles(p.opts.Group)
	if err != nil {
		return err
	}
	p.roles, p.names, p.created = roles, slices.Sorted(maps.Keys(roles)), map[string]bool{}
	for _, topic := range p.names {
		if !allowed(p.opts.AllowedTopics, topic) {
			return &RefusedError{codeTopicNotAllowed, fmt.Sprintf("topic %q (%s) is not in allowed_topics; add it there, or do not declare it", topic, roles[topic][0])}
		}
		if len(topic) > 249 || strings.Trim(topic, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "" {
			return badDeclaration("topic %.300q (%s) is no name that Kafka takes (letters, digits, '.', '_', '-', at most 249); rename it", topic, roles[topic][0])
		}
	}
	return nil
}

func (p *preparation) find(ctx context.Context) error {
	topics, err := p.client.Refresh(ctx, p.names...)
	if err != nil {
		return fmt.Errorf("looking for the declared topics: %w", err)
	}
	p.topics = topics
	return nil
}

// findAgain looks once more after a while for what is missing: a broker hears of a topic that was just
// created elsewhere a little later, and a refusal is for good.
func (p *preparation) findAgain(ctx context.Context) error {
	for attempt := 0; attempt < lookAgain && p.lacking(); attempt++ {
		if !kafka.Pause(ctx, attempt) {
			return ctx.Err()
		}
		if err := p.find(ctx); err != nil {
			return err
		}
	}
	return nil
}

// lookAgain is how often; about a second in all.
const lookAgain = 5

func (p *preparation) lacking() bool {
	for _, topic := range p.names {
		if p.missing(topic) && !p.isChangelog(topic) {
			return true
		}
	}
	return false
}

func (p *preparation) missing(topic string) bool {
	code, ok := kafka.CodeOf(p.topics[topic].Err)
	return ok && code == 3
}

func (p *preparation) isChangelog(topic string) bool { return p.roles[topic][0].what == asChangelog }

// createMissing is for development. A topic that has to match others is made like them.
func (p *preparation) createMissing(ctx context.Context) error {
	if p.opts.CreateMissing <= 0 {
		return nil
	}
	var specs []kafka.TopicSpec
	for _, topic := range p.names {
		if p.missing(topic) && !p.isChangelog(topic) {
			specs = append(specs, kafka.TopicSpec{Name: topic, Partitions: p.fitting(topic), Configs: p.tableConfig(topic)})
		}
	}
	return p.create(ctx, specs)
}

func (p *preparation) tableConfig(topic string) map[string]string {
	if what := p.roles[topic][0].what; what == asSourceTable || what == asGlobal {
		return map[string]string{"cleanup.policy": "compact"}
	}
	return nil
}

// fitting is the count of a topic of the same set that exists, or the configured one.
func (p *preparation) fitting(topic string) int32 {
	for _, set := range p.declared.Sets {
		topics := set.read()
		if !slices.Contains(topics, topic) {
			continue
		}
		for _, other := range topics {
			if n := p.count(other); n > 0 {
				return n
			}
		}
	}
	return p.opts.CreateMissing
}

// read are the topics of a set that others write.
func (set DeclaredSet) read() []string {
	topics := slices.Clone(set.Sources)
	for _, table := range set.Tables {
		if table.SourceTopic != "" {
			topics = append(topics, table.SourceTopic)
		}
	}
	return topics
}

func (p *preparation) create(ctx context.Context, specs []kafka.TopicSpec) error {
	if len(specs) == 0 {
		return nil
	}
	results := p.client.CreateTopics(ctx, specs...)
	for _, spec := range specs {
		err := results[spec.Name]
		if code, ok := kafka.CodeOf(err); ok && !kafka.Retriable(err) {
			hint := "create it by hand"
			if code == 29 || code == 31 {
				hint = "or create it by hand"
			}
			return &RefusedError{codeKafkaRefused, fmt.Sprintf("topic %q (%s) cannot be created with %d partitions: %v; %s",
				spec.Name, p.roles[spec.Name][0], spec.Partitions, err, hint)}
		}
		if err != nil {
			return fmt.Errorf("creating topic %q: %w", spec.Name, err)
		}
		p.created[spec.Name] = true
	}
	return p.find(ctx)
}

func (p *preparation) count(topic string) int32 { return int32(len(p.topics[topic].Partitions)) }

// checkExisting refuses topics that are missing, all in one sentence; changelogs are created later.
func (p *preparation) checkExisting(context.Context) error {
	var absent []string
	for _, topic := range p.names {
		if p.missing(topic) && !p.isChangelog(topic) && !p.created[topic] {
			absent = append(absent, fmt.Sprintf("%q (%s)", topic, p.roles[topic][0]))
		}
	}
	if len(absent) == 1 {
		return &RefusedError{codeUnknownTopic, fmt.Sprintf("topic %s does not exist, or this user may not see it; create it, or correct its name", absent[0])}
	}
	if len(absent) > 1 {
		return &RefusedError{codeUnknownTopic, fmt.Sprintf("topics %s do not exist, or this user may not see them; create them, or correct their names",
			strings.Join(absent, ", "))}
	}
	for _, topic := range p.names {
		err := p.topics[topic].Err
		switch {
		case p.missing(topic) && !p.created[topic]: // a changelog, which will be created
		case err == nil && p.count(topic) > 0:
		case err != nil && !kafka.Retriable(err):
			return &RefusedError{codeKafkaRefused, fmt.Sprintf("topic %q (%s) cannot be used: %v", topic, p.roles[topic][0], p.wanting(topic, err))}
		default:
			return fmt.Errorf("topic %q is not ready: %w", topic, cmpErr(err))
		}
	}
	return nil
}

func cmpErr(err error) error {
	if err == nil {
		return errors.New("it has no partitions yet")
	}
	return err
}

// checkCounts refuses sets whose topics do not all have the same number of partitions. Changelogs
// that are missing are passed over.
func (p *preparation) checkCounts(context.Context) error {
	for _, set := range p.declared.Sets {
		like := set.Sources[0]
		topics := slices.Clone(set.Sources)
		for _, table := range set.Tables {
			topics = append(topics, table.topic(p.opts.Group))
		}
		for _, topic := range topics {
			if !p.missing(topic) && p.count(topic) != p.count(like) {
				return p.mismatch(set, like, topic)
			}
		}
	}
	return nil
}

func (p *preparation) mismatch(set DeclaredSet, like, topic string) error {
	return &RefusedError{codeCountMismatch, fmt.Sprintf("topic %q (%s) has %d partitions but %q of the same set %q has %d; topics that are read together need the same number: create one of them anew",
		topic, p.roles[topic][0].what, p.count(topic), like, set.Name, p.count(like))}
}

// createChangelogs makes those that are missing: compacted, with their set's count and the broker's
// default replication.
func (p *preparation) createChangelogs(ctx context.Context) error {
	var specs []kafka.TopicSpec
	for _, set := range p.declared.Sets {
		for _, table := range set.Tables {
			if topic := table.topic(p.opts.Group); p.missing(topic) {
				specs = append(specs, kafka.TopicSpec{Name: topic, Partitions: p.count(set.Sources[0]),
					Configs: map[string]string{"cleanup.policy": "compact"}})
			}
		}
	}
	return p.create(ctx, specs)
}

// checkPolicies warns of changelogs that lose records by age.
func (p *preparation) checkPolicies(ctx context.Context) error {
	for _, topic := range p.names {
		if !p.isChangelog(topic) || p.created[topic] {
			continue
		}
		configs, err := p.client.TopicConfigs(ctx, topic, "cleanup.policy")
		if code, ok := kafka.CodeOf(err); ok && !kafka.Retriable(err) {
			p.warnings = append(p.warnings, fmt.Sprintf("cannot see whether changelog %q is compacted (%s); grant DescribeConfigs on it to this user", topic, kafka.CodeName(code)))
			continue
		}
		if err != nil {
			return fmt.Errorf("reading the configuration of changelog %q: %w", topic, err)
		}
		if policy := configs["cleanup.policy"]; policy != "compact" {
			p.warnings = append(p.warnings, fmt.Sprintf("changelog %q (%s) has cleanup.policy=%s: old rows of the table will be lost; set cleanup.policy=compact",
				topic, p.roles[topic][0].of, policy))
		}
	}
	return nil
}

func (p *preparation) prepared() Prepared {
	out := Prepared{
		Group: p.opts.Group, Outputs: slices.Clone(p.declared.Outputs), TopicIDs: map[string][16]byte{}, Created: map[string]int32{}, Warnings: p.warnings,
		Address: p.declared.Address, Replicas: p.declared.Replicas, NoStandby: p.declared.NoStandby,
	}
	for _, topic := range p.names {
		out.TopicIDs[topic] = p.topics[topic].ID
		if p.created[topic] {
			out.Created[topic] = p.count(topic)
		}
	}
	for _, set := range p.declared.Sets {
		s := PreparedSet{Name: set.Name, Sources: slices.Clone(set.Sources), Partitions: p.count(set.Sources[0])}
		for _, table := range set.Tables {
			s.Tables = append(s.Tables, PreparedTable{Name: table.Name, Topic: table.topic(p.opts.Group), Source: table.SourceTopic != ""})
		}
		out.Sets = append(out.Sets, s)
	}
	for _, global := range p.declared.Globals {
		out.Globals = append(out.Globals, PreparedGlobal{global.Name, global.Topic, p.count(global.Topic)})
	}
	return out
}

// wanting names the right that the topic's part asks for: metadata are refused for lack of Describe, which
// each of them holds.
func (p *preparation) wanting(topic string, err error) error {
	var denied *kafka.AccessError
	if !errors.As(err, &denied) {
		return err
	}
	if p.roles[topic][0].what == asOutput {
		return denied.For("Write")
	}
	return denied.For("Read")
}
