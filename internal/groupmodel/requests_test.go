package groupmodel

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

var scriptPartition = Partition{Topic: "src"}

// request makes the request of a step.
func (p *play) request(st step) Request {
	o := p.options(st)
	member := p.id(st.who)
	if id, ok := st.opts["id"]; ok {
		if member = p.id(id); id == "-" {
			member = ""
		} else if member == "" {
			member = "nobody" // gave this id
		}
	}
	generation := p.gens[st.who]
	if g, ok := st.opts["gen"]; ok {
		n, err := strconv.Atoi(g)
		if err != nil {
			p.stop(st, "%v", err)
		}
		generation = int32(n)
	}
	instance := o["instance"]
	switch st.verb {
	case "join":
		return JoinGroup{
			Member: member, Instance: instance, Session: p.duration(st, o["session"]), Rebalance: p.duration(st, o["rebalance"]),
			Metadata: o["meta"], KnowsSkip: !slices.Contains(st.args, "old"),
		}
	case "sync":
		plan := map[string]string{}
		if st.opts["plan"] != "" {
			for part := range strings.SplitSeq(st.opts["plan"], ",") {
				who, what, _ := strings.Cut(part, ":")
				plan[p.id(who)] = what
			}
		}
		return SyncGroup{Member: member, Instance: instance, Generation: generation, Plan: plan}
	case "heartbeat":
		return Heartbeat{Member: member, Instance: instance, Generation: generation}
	case "leave":
		return LeaveGroup{Member: member, Instance: instance}
	case "commit":
		return OffsetCommit{Member: member, Instance: instance, Generation: generation, Offsets: p.offset(st)}
	case "txncommit":
		return TxnOffsetCommit{Transaction: st.who, Member: member, Instance: instance, Generation: generation, Offsets: p.offset(st)}
	case "endtxn":
		return EndTxn{Transaction: st.who, Commit: slices.Contains(st.args, "commit")}
	case "fetch":
		return OffsetFetch{Partitions: []Partition{scriptPartition}, Stable: slices.Contains(st.args, "stable")}
	case "delete":
		return DeleteGroup{}
	}
	p.stop(st, "no verb %q", st.verb)
	return nil
}

// options of a step: its own, then the member's, then all's. Those of a join stay with the member.
func (p *play) options(st step) map[string]string {
	stay := p.of[st.who]
	if stay == nil {
		stay = map[string]string{}
		p.of[st.who] = stay
	}
	o := map[string]string{}
	for _, name := range []string{"session", "rebalance", "meta", "instance"} {
		o[name] = p.opts[name]
		if v, ok := stay[name]; ok {
			o[name] = v
		}
		if v, ok := st.opts[name]; ok {
			if v == "-" {
				v = ""
			}
			o[name] = v
			if st.verb == "join" {
				stay[name] = v
			}
		}
	}
	return o
}

func (p *play) duration(st step, text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		p.stop(st, "%v", err)
	}
	return d * p.scale
}

func (p *play) offset(st step) map[Partition]Offset {
	n, err := strconv.ParseInt(st.opts["at"], 10, 64)
	if err != nil {
		p.stop(st, "%v", err)
	}
	return map[Partition]Offset{scriptPartition: {At: n, Metadata: st.opts["claim"]}}
}
