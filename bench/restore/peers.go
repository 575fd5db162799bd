package main

import (
	"fmt"
	"slices"
)

const (
	pillion     = "pillion"
	confluent   = "confluent-kafka"
	streams     = "kafka-streams"
	pillionNode = "pillion-node"
	kafkajs     = "kafkajs"
)

// peers are what is compared with, and whom they are compared with: nobody chooses between two languages by these figures.
var peers = map[string][]string{
	pillion:     {confluent, streams},
	pillionNode: {kafkajs},
}

// ours are the ways of the sidecar, in the order in which they are told.
var ours = []string{pillion, pillionNode}

// reference is how fast the peers were, in thousand records per second, when each was measured with
// care on one quiet machine with two cores (Kafka 4.4.0, JDK 17, Python 3.11, Node 20, the same logs and window,
// confluent-kafka tuned as here, Kafka Streams with its in-memory store and defaults, kafkajs with defaults). Speeds do not
// carry over to another machine, but the ratio of two peers to each other nearly does. A peer that has
// fallen far behind another one is therefore not slow but badly set up or disturbed, and to be
// faster than it would say nothing.
var reference = map[string]map[string]float64{
	"none": {confluent: 435, streams: 303, kafkajs: 241},
	"lz4":  {confluent: 599, streams: 410, kafkajs: 194},
}

// leastShare of the reference's ratio must be reached by each peer against each other one.
const leastShare = 0.5

// believable returns an error in one sentence when a peer looks like a straw man.
func believable(variant string, speed map[string]float64) error {
	all := slices.Concat(peers[pillion], peers[pillionNode])
	for _, a := range all {
		for _, b := range all {
			if a == b || speed[a] == 0 || speed[b] == 0 {
				continue
			}
			usual := reference[variant][a] / reference[variant][b]
			if got := speed[a] / speed[b]; got < leastShare*usual {
				return fmt.Errorf("%s restored %.2f times as fast as %s where %.2f times is usual: "+
					"it is badly set up or was disturbed, and no figure is made of it; see to it, or run again on a quiet machine", a, got, b, usual)
			}
		}
	}
	return nil
}
