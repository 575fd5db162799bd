package specgen

import "strings"

// Copies that end, and actives that become copies.

// standbyOf gives a task as a standby with one table on the stream.
func (s *script) standbyOf(id, partition, epoch, stream int) {
	s.sidecar(`'assign', 'id': %d, 'task': 'flights/%d', 'set': 'flights', 'partition': %d, 'role': 'standby', 'epoch': %d, `+
		`'tables': [{'name': 'plane_stats', 'topic': 'flights-app-plane_stats-changelog', 'kind': 'changelog', 'stream': %d}]`,
		id, partition, partition, epoch, stream)
}

// promoted makes flights/3 the active, with three streams from first on.
func (s *script) promoted(id, epoch, first, position int) {
	s.sidecar(`'promoted', 'id': %d, 'task': 'flights/3', 'epoch': %d, 'sources': [{'topic': 'flights', 'stream': %d, 'position': %d}], `+
		`'tables': [{'name': 'plane_stats', 'topic': 'flights-app-plane_stats-changelog', 'kind': 'changelog', 'stream': %d}], `+
		`'outputs': [{'topic': 'late-arrivals', 'stream': %d}]`, id, epoch, first, position, first+1, first+2)
}

// shadowing brings a first connection to a copy of flights/3 with one record: epoch 1, stream 1.
func (s *script) shadowing() {
	s.helloStandby(1)
	s.cause("the group makes this member the standby of flights/3; the changelog ends at 1",
		`'stand_by': 'flights/3', 'ends': {'plane_stats': 1}`)
	s.standbyOf(1, 3, 1, 1)
	s.opened(1, 1, "")
	s.frame(restore(1, 1, 0, "v1:a:1:0:1", kv("a", "1")), "")
}

func standbyLost(s *script) {
	s.note("a standby that the group wants no more is lost at once: there is nothing to finish. The store stays, and helps the next time")
	s.shadowing()
	s.cause("the group takes the copy away", `'take': 'flights/3'`)
	s.sidecar(`'lost', 'task': 'flights/3', 'epoch': 1, 'code': 'rebalance', 'message': 'the task has gone elsewhere'`)
	s.store("plane_stats", "flights/3", "'a': '1'", "v1:a:1:0:1")
	s.cause("this member becomes the active; the changelog ends at 2, position 104 is committed",
		`'give': 'flights/3', 'positions': {'flights': 104}, 'ends': {'plane_stats': 2}`)
	s.assign(2, 2, 2, 104)
	s.opened(2, 2, "v1:a:1:0:1")
	s.frame(restore(3, 2, 1, "v1:a:2:0:2", kv("a", "2")), "")
	s.ready(3, 2)
	s.store("plane_stats", "flights/3", "'a': '2'", "v1:a:2:0:2")
}

func promotedLost(s *script) {
	s.note("the membership is lost while promoted waits: the sidecar cannot know whether it has come, and ends both epochs; the one that is not there is ignored")
	s.shadowing()
	s.cause("the active dies; this member becomes the active; position 104 is committed",
		`'give': 'flights/3', 'positions': {'flights': 104}, 'ends': {'plane_stats': 1}`)
	s.promoted(2, 2, 2, 104)
	s.queued()
	s.cause("the membership is lost", `'lose': 'fenced'`)
	s.sidecar(`'lost', 'task': 'flights/3', 'epoch': 1, 'code': 'fenced', 'message': 'the membership was lost'`)
	s.sidecar(`'lost', 'task': 'flights/3', 'epoch': 2, 'code': 'fenced', 'message': 'the membership was lost'`)
	s.store("plane_stats", "flights/3", "'a': '1'", "v1:a:1:0:1")
	s.cause("the sidecar has joined again and is its standby", `'stand_by': 'flights/3'`)
	s.standbyOf(3, 3, 3, 5)
	s.opened(3, 3, "v1:a:1:0:1")
	s.frame(restore(5, 3, 1, "v1:a:2:0:2", kv("a", "2")), "")
	s.store("plane_stats", "flights/3", "'a': '2'", "v1:a:2:0:2")
}

func demotedRevoked(s *script) {
	s.note("an active that has delivered records in hand is not demoted: it is revoked, may make its last commit, and is assigned as a standby afterwards")
	s.helloStandby(1)
	s.given("")
	s.assign(1, 1, 1, 100)
	s.opened(1, 1, "")
	s.ready(2, 1)
	s.frame(records(1, 1, 100, kv("a", "1")), "")
	s.cause("the group moves the task and leaves this member as its standby", `'stand_by': 'flights/3'`)
	s.revoke(3, 1, "rebalance")
	s.frame(writes(2, 1, 2, kv("a", "1")), "")
	s.commit(2, 1, 101)
	s.released(3, 1)
	s.acknowledged(2)
	s.committed(2, 1, "v1:a:1:0:1")
	s.standbyOf(4, 3, 2, 4)
	s.opened(4, 2, "v1:a:1:0:1")
	s.frame(restore(4, 2, 1, "v1:a:2:0:2", kv("a", "2")), "")
	s.store("plane_stats", "flights/3", "'a': '2'", "v1:a:2:0:2")
}

func drainStandby(s *script) {
	s.note("the sidecar ends with an active and a standby: the active may finish, the standby is lost at once")
	s.helloStandby(1)
	s.given("")
	s.assign(1, 1, 1, 100)
	s.opened(1, 1, "")
	s.ready(2, 1)
	s.cause("the group makes this member the standby of flights/4", `'stand_by': 'flights/4', 'ends': {'plane_stats': 1}`)
	s.standbyOf(3, 4, 2, 4)
	s.worker(`'opened', 're': 3, 'task': 'flights/4', 'epoch': 2, 'checkpoints': {'plane_stats': null}`)
	s.frame(restore(4, 2, 0, "v1:b:1:0:1", kv("b", "1")), "")
	s.frame(records(1, 1, 100, kv("a", "1")), "")
	s.cause("the sidecar gets SIGTERM", `'drain': true`)
	s.revoke(4, 1, "drain")
	s.sidecar(`'lost', 'task': 'flights/4', 'epoch': 2, 'code': 'drain', 'message': 'the task has gone elsewhere'`)
	s.store("plane_stats", "flights/4", "'b': '1'", "v1:b:1:0:1")
	s.frame(writes(2, 1, 2, kv("a", "1")), "")
	s.commit(2, 1, 101)
	s.released(4, 1)
	s.acknowledged(2)
	s.committed(2, 1, "v1:a:1:0:1")
	s.store("plane_stats", "flights/3", "'a': '1'", "v1:a:1:0:1")
	s.close("sidecar", 4411)
}

func hung(s *script) {
	s.note("a worker that owes something and makes no progress loses everything, the socket stays open; with its next message the sidecar joins again")
	s.connect()
	s.worker(`'hello', 'id': 1, ` + me + `, ` + window + `, 'group': 'flights-app', 'level': 'standby', ` + declared)
	s.sidecar(`'welcome', 're': 1, `+strings.Replace(answered, `'max_processing_ms': 300000`, `'max_processing_ms': 3000`, 1), 1)
	s.given("")
	s.assign(1, 1, 1, 100)
	s.opened(1, 1, "")
	s.ready(2, 1)
	s.cause("the group makes this member the standby of flights/4", `'stand_by': 'flights/4', 'ends': {'plane_stats': 0}`)
	s.standbyOf(3, 4, 2, 4)
	s.worker(`'opened', 're': 3, 'task': 'flights/4', 'epoch': 2, 'checkpoints': {'plane_stats': null}`)
	s.frame(records(1, 1, 100, kv("a", "1")), "")
	s.cause("the worker's own code blocks for longer than max_processing_ms", `'hang': true`)
	s.sidecar(`'lost', 'task': 'flights/3', 'epoch': 1, 'code': 'hung', 'message': 'no progress for 3s'`)
	s.sidecar(`'lost', 'task': 'flights/4', 'epoch': 2, 'code': 'hung', 'message': 'no progress for 3s'`)
	s.note("the worker goes on: nothing of what it did meanwhile can be committed")
	s.worker(`'progress'`)
	s.cause("the sidecar has joined again and got flights/3", `'give': 'flights/3', 'positions': {'flights': 100}`)
	s.assign(4, 3, 5, 100)
	s.opened(4, 3, "")
	s.ready(5, 3)
	s.frame(records(5, 3, 100, kv("a", "1")), "")
}
