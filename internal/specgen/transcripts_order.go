package specgen

// What happens while something else is under way.

func resetQueued(s *script) {
	s.note("a source table is reset while records wait in the worker's queue: they wait behind the replay, which stands behind them in the queue")
	s.followed()
	s.frame(restore(2, 1, 0, "v1:p:1:0:1", kv("N1", "1998")), "")
	s.store("planes", "flights/3", "'N1': '1998'", "v1:p:1:0:1")
	s.note("the application is busy: what comes now stays in the queue")
	s.frame(records(1, 1, 101, kv("N1", "y")), "")
	s.queued()
	s.frame(restore(2, 1, 1, "v1:p:2:0:1", kv("N1", "1999")), "")
	s.queued()
	s.note("reset overtakes: the queued rows of the table are dropped, the queued records stay")
	s.sidecar(`'reset', 'id': 3, 'task': 'flights/3', 'epoch': 1, 'table': 'planes', 'stream': 2, 'next_offset': 0, 'code': 'recreated', 'message': 'planes was created anew'`)
	s.delivered(101)
	s.store("planes", "flights/3", "", "")
	s.worker(`'opened', 're': 3, 'task': 'flights/3', 'epoch': 1, 'checkpoints': {'planes': null}`)
	s.frame(restore(2, 1, 0, "v1:q:1:0:2", kv("N1", "2004")), "")
	s.store("planes", "flights/3", "'N1': '2004'", "v1:q:1:0:2")
	s.delivered(101)
	s.sidecar(`'restored', 'id': 4, 'task': 'flights/3', 'epoch': 1`)
	s.worker(`'ready', 're': 4, 'task': 'flights/3', 'epoch': 1`)
	s.note("only now the records that waited")
	s.delivered(102)
	s.frame(records(1, 1, 102, kv("N1", "z")), "")
	s.delivered(103)
}

// followed brings a first connection to one record of flights/3, which has an empty source table.
func (s *script) followed() {
	s.connect()
	s.worker(`'hello', 'id': 1, ` + me + `, ` + window + `, 'group': 'flights-app', 'sets': [{'name': 'flights', 'sources': ['flights'], 'tables': [{'name': 'planes', 'source_topic': 'planes'}]}]`)
	s.sidecar(`'welcome', 're': 1, `+answered, 1)
	s.cause("flights/3 is given; planes/3 is empty",
		`'give': 'flights/3', 'positions': {'flights': 100}`)
	s.sidecar(`'assign', 'id': 1, 'task': 'flights/3', 'set': 'flights', 'partition': 3, 'role': 'active', 'epoch': 1, ` +
		`'sources': [{'topic': 'flights', 'stream': 1, 'position': 100}], 'tables': [{'name': 'planes', 'topic': 'planes', 'kind': 'source', 'stream': 2}]`)
	s.worker(`'opened', 're': 1, 'task': 'flights/3', 'epoch': 1, 'checkpoints': {'planes': null}`)
	s.ready(2, 1)
	s.frame(records(1, 1, 100, kv("N1", "x")), "")
	s.delivered(101)
}

func resetTwice(s *script) {
	s.note("a second reset overtakes the restored of the first: records wait for the restored that comes after the last reset")
	s.followed()
	s.frame(records(1, 1, 101, kv("N1", "y")), "")
	s.queued()
	s.sidecar(`'reset', 'id': 3, 'task': 'flights/3', 'epoch': 1, 'table': 'planes', 'stream': 2, 'next_offset': 0, 'code': 'recreated', 'message': 'planes was created anew'`)
	s.worker(`'opened', 're': 3, 'task': 'flights/3', 'epoch': 1, 'checkpoints': {'planes': null}`)
	s.frame(restore(2, 1, 0, "v1:q:1:0:2", kv("N1", "2004")), "")
	s.queued()
	s.sidecar(`'restored', 'id': 4, 'task': 'flights/3', 'epoch': 1`)
	s.queued()
	s.sidecar(`'reset', 'id': 5, 'task': 'flights/3', 'epoch': 1, 'table': 'planes', 'stream': 2, 'next_offset': 0, 'code': 'recreated', 'message': 'planes was created anew'`)
	s.delivered(101)
	s.worker(`'opened', 're': 5, 'task': 'flights/3', 'epoch': 1, 'checkpoints': {'planes': null}`)
	s.frame(restore(2, 1, 0, "v1:r:1:0:3", kv("N1", "2005")), "")
	s.delivered(101)
	s.sidecar(`'restored', 'id': 6, 'task': 'flights/3', 'epoch': 1`)
	s.worker(`'ready', 're': 6, 'task': 'flights/3', 'epoch': 1`)
	s.delivered(102)
	s.store("planes", "flights/3", "'N1': '2005'", "v1:r:1:0:3")
}

func revokeEarly(s *script) {
	s.note("a task is wanted back before its records flow: the answer is released, and nothing else of the epoch")
	s.hello(1)
	s.cause("flights/3 is given; the changelog ends at 60, position 100 is committed",
		`'give': 'flights/3', 'positions': {'flights': 100}, 'ends': {'plane_stats': 60}`)
	s.assign(1, 1, 1, 100)
	s.opened(1, 1, "")
	s.frame(restore(2, 1, 0, "v1:a:1:0:1", kv("a", "1")), "")
	s.cause("the group takes flights/3 away", `'take': 'flights/3'`)
	s.revoke(2, 1, "rebalance")
	s.released(2, 1)
	s.note("the store keeps what it has")
	s.store("plane_stats", "flights/3", "'a': '1'", "v1:a:1:0:1")
	s.cause("the group gives flights/3 back; its changelog ends at 1 now",
		`'give': 'flights/3', 'positions': {'flights': 100}, 'ends': {'plane_stats': 1}`)
	s.assign(3, 2, 4, 100)
	s.opened(3, 2, "v1:a:1:0:1")
	s.note("revoke overtakes restored, which needs no answer any more")
	s.sidecar(`'restored', 'id': 4, 'task': 'flights/3', 'epoch': 2`)
	s.queued()
	s.cause("the group takes flights/3 away", `'take': 'flights/3'`)
	s.revoke(5, 2, "rebalance")
	s.released(5, 2)
}

func abortedReleased(s *script) {
	s.note("the last commit fails when its task is released already: no lost comes, and the store stays as it was")
	s.running()
	s.frame(records(1, 1, 100, kv("a", "1")), "")
	s.cause("the group takes flights/3 away", `'take': 'flights/3'`)
	s.revoke(3, 1, "rebalance")
	s.frame(writes(2, 1, 2, kv("a", "0123456789")), "")
	s.commit(2, 1, 101)
	s.released(3, 1)
	s.cause("the topic flights-app-plane_stats-changelog takes no record of that size",
		`'refuse': 2, 'code': 'record_too_large'`)
	s.sidecar(`'aborted', 're': 2, 'task': 'flights/3', 'epoch': 1, 'code': 'record_too_large', 'message': 'a record is over max.message.bytes of flights-app-plane_stats-changelog'`)
	s.store("plane_stats", "flights/3", "", "")
	s.cause("the group gives flights/3 back", `'give': 'flights/3', 'positions': {'flights': 100}`)
	s.assign(4, 2, 4, 100)
	s.opened(4, 2, "")
	s.ready(5, 2)
	s.frame(records(4, 2, 100, kv("a", "1")), "")
}

func emptyFrame(s *script) {
	s.note("records frames without a record move the position across markers and aborted records")
	s.running()
	s.frame(until(records(1, 1, 100), 105), "")
	s.delivered(105)
	s.frame(until(records(1, 1, 105, kv("a", "1")), 107), "")
	s.delivered(107)
	s.note("the frame's next offset is committed, not the last record's offset + 1, which is 106")
	s.frame(writes(2, 1, 2, kv("a", "1")), "")
	s.commit(2, 1, 107)
	s.acknowledged(2)
	s.committed(2, 1, "v1:a:1:0:1")
	s.store("plane_stats", "flights/3", "'a': '1'", "v1:a:1:0:1")
	s.note("it may be committed alone, and need not be")
	s.frame(until(records(1, 1, 107), 109), "")
	s.commit(3, 1, 109)
	s.acknowledged(3)
	s.sidecar(`'committed', 're': 3, 'task': 'flights/3', 'epoch': 1`)
}

func drainTwo(s *script) {
	s.note("the sidecar ends with two tasks: the socket is closed when the last one is released and its commits are answered")
	s.hello(1)
	s.given("")
	s.assign(1, 1, 1, 100)
	s.opened(1, 1, "")
	s.ready(2, 1)
	s.cause("the group gives flights/4, too", `'give': 'flights/4', 'positions': {'flights': 200}, 'ends': {'plane_stats': 0}`)
	s.sidecar(`'assign', 'id': 3, 'task': 'flights/4', 'set': 'flights', 'partition': 4, 'role': 'active', 'epoch': 2, ` +
		`'sources': [{'topic': 'flights', 'stream': 4, 'position': 200}], ` +
		`'tables': [{'name': 'plane_stats', 'topic': 'flights-app-plane_stats-changelog', 'kind': 'changelog', 'stream': 5}], ` +
		`'outputs': [{'topic': 'late-arrivals', 'stream': 6}]`)
	s.worker(`'opened', 're': 3, 'task': 'flights/4', 'epoch': 2, 'checkpoints': {'plane_stats': null}`)
	s.sidecar(`'restored', 'id': 4, 'task': 'flights/4', 'epoch': 2`)
	s.worker(`'ready', 're': 4, 'task': 'flights/4', 'epoch': 2`)
	s.frame(records(1, 1, 100, kv("a", "1")), "")
	s.frame(records(4, 2, 200, kv("b", "1")), "")
	s.cause("the sidecar gets SIGTERM", `'drain': true`)
	s.revoke(5, 1, "drain")
	s.sidecar(`'revoke', 'id': 6, 'task': 'flights/4', 'epoch': 2, 'deadline_ms': 10000, 'code': 'drain'`)
	s.frame(writes(2, 1, 2, kv("a", "1")), "")
	s.commit(2, 1, 101)
	s.released(5, 1)
	s.acknowledged(2)
	s.committed(2, 1, "v1:a:1:0:1")
	s.note("flights/4 is still the worker's: the socket stays open")
	s.frame(writes(5, 2, 3, kv("b", "1")), "")
	s.worker(`'commit', 'id': 3, 'task': 'flights/4', 'epoch': 2, 'source_next': {'flights': 201}`)
	s.worker(`'released', 're': 6, 'task': 'flights/4', 'epoch': 2`)
	s.acknowledged(3)
	s.sidecar(`'committed', 're': 3, 'task': 'flights/4', 'epoch': 2, 'checkpoints': {'plane_stats': 'v1:b:1:0:1'}`)
	s.store("plane_stats", "flights/3", "'a': '1'", "v1:a:1:0:1")
	s.store("plane_stats", "flights/4", "'b': '1'", "v1:b:1:0:1")
	s.close("sidecar", 4411)
}

func promotedRevoked(s *script) {
	s.note("revoke names an epoch whose promoted still waits in the worker's queue: the queue is worked down to there first")
	s.helloStandby(1)
	s.cause("the group makes this member the standby of flights/3; the changelog ends at 1",
		`'stand_by': 'flights/3', 'ends': {'plane_stats': 1}`)
	s.sidecar(`'assign', 'id': 1, 'task': 'flights/3', 'set': 'flights', 'partition': 3, 'role': 'standby', 'epoch': 1, ` +
		`'tables': [{'name': 'plane_stats', 'topic': 'flights-app-plane_stats-changelog', 'kind': 'changelog', 'stream': 1}]`)
	s.opened(1, 1, "")
	s.frame(restore(1, 1, 0, "v1:a:1:0:1", kv("a", "1")), "")
	s.queued()
	s.cause("the active dies; this member becomes the active; position 104 is committed",
		`'give': 'flights/3', 'positions': {'flights': 104}, 'ends': {'plane_stats': 1}`)
	s.sidecar(`'promoted', 'id': 2, 'task': 'flights/3', 'epoch': 2, 'sources': [{'topic': 'flights', 'stream': 2, 'position': 104}], ` +
		`'tables': [{'name': 'plane_stats', 'topic': 'flights-app-plane_stats-changelog', 'kind': 'changelog', 'stream': 3}], 'outputs': [{'topic': 'late-arrivals', 'stream': 4}]`)
	s.queued()
	s.cause("the group takes flights/3 away", `'take': 'flights/3'`)
	s.revoke(3, 2, "rebalance")
	s.store("plane_stats", "flights/3", "'a': '1'", "v1:a:1:0:1")
	s.released(3, 2)
}
