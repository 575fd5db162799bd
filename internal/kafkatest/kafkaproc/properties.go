package kafkaproc

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// nodeConfig is what differs from node to node.
type nodeConfig struct {
	id                         int32
	brokerPort, controllerPort int
	voters                     string
	brokers                    int
	dir                        string
	secure                     secureNode
}

// properties writes a node's configuration. It is tuned for tests: a dead
// broker is noticed in 2 s, internal topics are small, compaction runs often,
// and a group does not wait for more members.
func properties(n nodeConfig, more map[string]string) string {
	factor, isr := "1", "1"
	if n.brokers >= 3 {
		factor, isr = "3", "2"
	}
	p := map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        fmt.Sprint(n.id),
		"broker.rack":                    fmt.Sprintf("r%d", n.id),
		"controller.quorum.voters":       n.voters,
		"listeners":                      fmt.Sprintf("PLAINTEXT://%s,CONTROLLER://%s", address(n.brokerPort), address(n.controllerPort)),
		"controller.listener.names":      "CONTROLLER",
		"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
		"log.dirs":                       n.dir,

		"default.replication.factor":                       factor,
		"min.insync.replicas":                              isr,
		"offsets.topic.replication.factor":                 factor,
		"offsets.topic.num.partitions":                     "4",
		"transaction.state.log.replication.factor":         factor,
		"transaction.state.log.min.isr":                    isr,
		"transaction.state.log.num.partitions":             "4",
		"share.coordinator.state.topic.num.partitions":     "1",
		"share.coordinator.state.topic.replication.factor": factor,
		"share.coordinator.state.topic.min.isr":            isr,

		"auto.create.topics.enable":             "false",
		"group.initial.rebalance.delay.ms":      "0",
		"group.min.session.timeout.ms":          "500",
		"broker.session.timeout.ms":             "2000",
		"broker.heartbeat.interval.ms":          "300",
		"controller.quorum.election.timeout.ms": "300",
		"controller.quorum.fetch.timeout.ms":    "1000",
		"log.cleaner.backoff.ms":                "200",
		"replica.selector.class":                "org.apache.kafka.common.replica.RackAwareReplicaSelector",
	}
	maps.Copy(p, more)
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&b, "%s=%s\n", k, p[k])
	}
	return b.String()
}
