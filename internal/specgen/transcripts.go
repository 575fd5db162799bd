package specgen

// transcripts gives every conversation by name.
func transcripts() map[string]*script {
	all := map[string]*script{}
	for name, write := range map[string]func(*script){
		"start": start, "restore": restoreTail, "two_commits": twoCommits, "revoke": revoke, "lost": lost,
		"reset": reset, "global": global, "reconnect": reconnect, "aborted": aborted, "unknown": unknown,
		"drain": drain, "refused": refused, "misdeclared": misdeclared, "version": version, "superseded": superseded, "credit": credit,
		"standby": standby, "gap": gap, "errors": requestErrors, "store_failed": storeFailed,
		"reset_queued": resetQueued, "revoke_early": revokeEarly, "aborted_released": abortedReleased,
		"empty_frame": emptyFrame, "drain_two": drainTwo, "promoted_revoked": promotedRevoked,
		"reset_twice":  resetTwice,
		"standby_lost": standbyLost, "promoted_lost": promotedLost, "demoted_revoked": demotedRevoked,
		"drain_standby": drainStandby, "hung": hung, "locate": locate,
	} {
		s := &script{}
		write(s)
		all[name] = s
	}
	return all
}

func start(s *script) {
	s.note("from nothing to a first commit")
	s.hello(1)
	s.sidecar(`'waiting', 'code': 'joining', 'message': 'joining the group flights-app'`)
	s.sidecar(`'waiting', 'code': 'ok'`)
	s.given("")
	s.assign(1, 1, 1, 100)
	s.note("no store yet: the checkpoint is null; an empty changelog is restored at once")
	s.opened(1, 1, "")
	s.ready(2, 1)
	s.frame(records(1, 1, 100, timed(1357020000000, kv("N14228", "late 11")), timed(1357020060000, Record{Value: text("no tail number")}), timed(1357020120000, kv("N24211", "late 40"))), "")
	s.note("the frames of a commit carry its id; the store takes the rows only at committed")
	s.frame(writes(2, 1, 2, kv("N14228", "1"), kv("N24211", "1")), "")
	s.frame(writes(3, 1, 2, timed(1357020120000, Record{Key: text("IAH"), Value: text("40"), Headers: [][2]Bytes{{text("plane"), text("N24211")}}})), "")
	s.commit(2, 1, 103)
	s.store("plane_stats", "flights/3", "", "")
	s.acknowledged(2)
	s.committed(2, 1, "v1:a:2:0:1")
	s.store("plane_stats", "flights/3", "'N14228': '1', 'N24211': '1'", "v1:a:2:0:1")
	s.worker(`'progress'`)
	s.note("a commit without writes only moves the position: no new checkpoint")
	s.frame(records(1, 1, 103, kv("N619AA", "early")), "")
	s.commit(3, 1, 104)
	s.acknowledged(3)
	s.sidecar(`'committed', 're': 3, 'task': 'flights/3', 'epoch': 1`)
	s.store("plane_stats", "flights/3", "'N14228': '1', 'N24211': '1'", "v1:a:2:0:1")
}

func restoreTail(s *script) {
	s.note("a store with a checkpoint gets only what came after; positions move across gaps, markers and empty frames")
	s.hello(1)
	s.cause("flights/3 is given; the changelog ends at 60, position 100 is committed",
		`'give': 'flights/3', 'positions': {'flights': 100}, 'ends': {'plane_stats': 60}`)
	s.holds("plane_stats", "flights/3", "'N1': 'old', 'N2': 'old'", "v1:a:40:0:1")
	s.assign(1, 1, 1, 100)
	s.opened(1, 1, "v1:a:40:0:1")
	s.note("the first frame may start anywhere; each later one where the one before ended")
	s.frame(until(restore(2, 1, 40, "v1:a:52:0:2", kv("N1", "new"), offset(44, kv("N3", "3")), offset(45, tombstone("N2"))), 52), "")
	s.store("plane_stats", "flights/3", "'N1': 'new', 'N3': '3'", "v1:a:52:0:2")
	s.sidecar(`'restoring', 'task': 'flights/3', 'epoch': 1, 'table': 'plane_stats', 'records': 3, 'bytes': 120, 'rate': 3, 'remaining': 8, 'eta_ms': 2666`)
	s.sidecar(`'restoring', 'task': 'flights/3', 'epoch': 1, 'table': 'plane_stats', 'records': 3, 'bytes': 120, 'rate': 0, 'remaining': 8, 'eta_ms': -1, 'waits_for': 'a transaction that is open at offset 52'`)
	s.frame(restore(2, 1, 52, "v1:a:53:0:2", kv("N4", "")), "")
	s.note("a frame without records moves the checkpoint to the end: markers")
	s.frame(until(restore(2, 1, 53, "v1:a:60:0:2"), 60), "")
	s.store("plane_stats", "flights/3", "'N1': 'new', 'N3': '3', 'N4': ''", "v1:a:60:0:2")
	s.ready(2, 1)
	s.frame(records(1, 1, 100, kv("N1", "x")), "")
}

func twoCommits(s *script) {
	s.note("two commits of a task may be outstanding; they are answered in order")
	s.running()
	s.frame(records(1, 1, 100, kv("a", "1")), "")
	s.frame(records(1, 1, 101, kv("b", "2")), "")
	s.frame(writes(2, 1, 2, kv("a", "1")), "")
	s.commit(2, 1, 101)
	s.frame(writes(2, 1, 3, kv("a", "2"), kv("b", "1")), "")
	s.commit(3, 1, 102)
	s.store("plane_stats", "flights/3", "", "")
	s.cause("commits 2 and 3 are acknowledged by Kafka",
		`'land': [2, 3]`)
	s.committed(2, 1, "v1:a:1:0:1")
	s.store("plane_stats", "flights/3", "'a': '1'", "v1:a:1:0:1")
	s.committed(3, 1, "v1:a:3:0:1")
	s.store("plane_stats", "flights/3", "'a': '2', 'b': '1'", "v1:a:3:0:1")
}

func revoke(s *script) {
	s.note("the worker finishes, makes its last commit and releases; released need not wait for committed")
	s.running()
	s.frame(records(1, 1, 100, kv("a", "1")), "")
	s.cause("the group takes flights/3 away",
		`'take': 'flights/3'`)
	s.sidecar(`'revoke', 'id': 3, 'task': 'flights/3', 'epoch': 1, 'deadline_ms': 10000, 'code': 'rebalance'`)
	s.frame(writes(2, 1, 2, kv("a", "1")), "")
	s.commit(2, 1, 101)
	s.worker(`'released', 're': 3, 'task': 'flights/3', 'epoch': 1`)
	s.acknowledged(2)
	s.committed(2, 1, "v1:a:1:0:1")
	s.store("plane_stats", "flights/3", "'a': '1'", "v1:a:1:0:1")
	s.cause("the group gives flights/3 back; somebody else wrote to the changelog meanwhile",
		`'give': 'flights/3', 'positions': {'flights': 105}, 'ends': {'plane_stats': 2}`)
	s.assign(4, 2, 4, 105)
	s.opened(4, 2, "v1:a:1:0:1")
	s.frame(restore(5, 2, 1, "v1:a:2:0:3", kv("a", "5")), "")
	s.ready(5, 2)
	s.store("plane_stats", "flights/3", "'a': '5'", "v1:a:2:0:3")
}

func lost(s *script) {
	s.note("lost ends the epoch at once; what was outstanding is answered, and nothing of it counts unless committed")
	s.running()
	s.frame(records(1, 1, 100, kv("a", "1"), kv("b", "2")), "")
	s.frame(writes(2, 1, 2, kv("a", "1")), "")
	s.commit(2, 1, 101)
	s.cause("the membership is lost while the writes of commit 2 are on their way; they do not arrive",
		`'lose': 'fenced'`)
	s.sidecar(`'lost', 'task': 'flights/3', 'epoch': 1, 'code': 'fenced', 'message': 'the membership was lost'`)
	s.sidecar(`'unknown', 're': 2, 'task': 'flights/3', 'epoch': 1, 'code': 'fenced', 'message': 'the membership was lost'`)
	s.store("plane_stats", "flights/3", "", "")
	s.note("a worker that had not yet read lost may still send this; it is credited and answered stale")
	s.frame(writes(2, 1, 3, kv("a", "1"), kv("b", "1")), "")
	s.race()
	s.commit(3, 1, 102)
	s.race()
	s.sidecar(`'stale', 're': 3, 'task': 'flights/3', 'epoch': 1`)
	s.cause("the sidecar has joined again and got flights/3",
		`'give': 'flights/3', 'positions': {'flights': 100}, 'ends': {'plane_stats': 0}`)
	s.assign(3, 2, 4, 100)
	s.opened(3, 2, "")
	s.ready(4, 2)
	s.note("a frame of an old epoch is credited and dropped")
	s.frame(records(1, 1, 102, kv("c", "3")), "dropped")
	s.frame(records(4, 2, 100, kv("a", "1"), kv("b", "2")), "")
}

func reset(s *script) {
	s.note("a source table whose checkpoint is of no use is wiped and replayed; records wait for it")
	s.connect()
	s.worker(`'hello', 'id': 1, ` + me + `, ` + window + `, 'group': 'flights-app', 'sets': [{'name': 'flights', 'sources': ['flights'], 'tables': [{'name': 'planes', 'source_topic': 'planes'}]}]`)
	s.sidecar(`'welcome', 're': 1, `+answered, 1)
	s.cause("flights/3 is given; planes/3 begins at 20 and ends at 22",
		`'give': 'flights/3', 'positions': {'flights': 100}`)
	s.holds("planes", "flights/3", "'N9': 'gone'", "v1:p:5:0:1")
	s.sidecar(`'assign', 'id': 1, 'task': 'flights/3', 'set': 'flights', 'partition': 3, 'role': 'active', 'epoch': 1, ` +
		`'sources': [{'topic': 'flights', 'stream': 1, 'position': 100}], 'tables': [{'name': 'planes', 'topic': 'planes', 'kind': 'source', 'stream': 2}]`)
	s.worker(`'opened', 're': 1, 'task': 'flights/3', 'epoch': 1, 'checkpoints': {'planes': 'v1:p:5:0:1'}`)
	s.sidecar(`'reset', 'id': 2, 'task': 'flights/3', 'epoch': 1, 'table': 'planes', 'stream': 2, 'next_offset': 20, 'code': 'below_log_start', 'message': 'the checkpoint is at 5, the log starts at 20'`)
	s.store("planes", "flights/3", "", "")
	s.worker(`'opened', 're': 2, 'task': 'flights/3', 'epoch': 1, 'checkpoints': {'planes': null}`)
	s.frame(restore(2, 1, 20, "v1:p:22:0:2", kv("N1", "1998"), kv("N2", "2004")), "")
	s.ready(3, 1)
	s.store("planes", "flights/3", "'N1': '1998', 'N2': '2004'", "v1:p:22:0:2")
	s.frame(records(1, 1, 100, kv("N1", "x")), "")
	s.note("a source table is followed for ever, between records frames")
	s.frame(restore(2, 1, 22, "v1:p:23:0:3", kv("N3", "2010")), "")
	s.cause("planes is deleted and created anew")
	s.sidecar(`'reset', 'id': 4, 'task': 'flights/3', 'epoch': 1, 'table': 'planes', 'stream': 2, 'next_offset': 0, 'code': 'recreated', 'message': 'planes was created anew'`)
	s.store("planes", "flights/3", "", "")
	s.worker(`'opened', 're': 4, 'task': 'flights/3', 'epoch': 1, 'checkpoints': {'planes': null}`)
	s.note("what was delivered before may be committed meanwhile")
	s.commit(2, 1, 101)
	s.acknowledged(2)
	s.sidecar(`'committed', 're': 2, 'task': 'flights/3', 'epoch': 1`)
	s.frame(restore(2, 1, 0, "v1:q:1:0:4", kv("N1", "1999")), "")
	s.ready(5, 1)
	s.store("planes", "flights/3", "'N1': '1999'", "v1:q:1:0:4")
	s.frame(records(1, 1, 101, kv("N1", "y")), "")
}

func global(s *script) {
	s.note("records wait until every partition of the global tables has been restored once on this connection")
	s.connect()
	s.worker(`'hello', 'id': 1, ` + me + `, ` + window + `, 'group': 'flights-app', ` + declared + `, 'globals': [{'name': 'airports', 'topic': 'airports'}]`)
	s.sidecar(`'welcome', 're': 1, `+answered, 1)
	for p := range 2 {
		s.sidecar(`'assign', 'id': %d, 'task': 'airports/%d', 'set': 'airports', 'partition': %d, 'role': 'global', 'epoch': 1, `+
			`'tables': [{'name': 'airports', 'topic': 'airports', 'kind': 'global', 'stream': %d}]`, p+1, p, p, p+1)
	}
	s.cause("flights/3 is given; its changelog is empty, position 100 is committed",
		`'give': 'flights/3', 'positions': {'flights': 100}, 'ends': {'plane_stats': 0}`)
	s.assign(3, 1, 3, 100)
	s.worker(`'opened', 're': 1, 'task': 'airports/0', 'epoch': 1, 'checkpoints': {'airports': null}`)
	s.worker(`'opened', 're': 2, 'task': 'airports/1', 'epoch': 1, 'checkpoints': {'airports': null}`)
	s.opened(3, 1, "")
	s.ready(4, 1)
	s.sidecar(`'waiting', 'code': 'globals', 'message': 'records wait for the global tables: airports/0, airports/1'`)
	s.frame(restore(1, 1, 0, "v1:g:1:0:1", kv("IAH", "Houston")), "")
	s.sidecar(`'restored', 'id': 5, 'task': 'airports/0', 'epoch': 1`)
	s.worker(`'ready', 're': 5, 'task': 'airports/0', 'epoch': 1`)
	s.note("an empty partition is restored at once")
	s.sidecar(`'restored', 'id': 6, 'task': 'airports/1', 'epoch': 1`)
	s.worker(`'ready', 're': 6, 'task': 'airports/1', 'epoch': 1`)
	s.sidecar(`'waiting', 'code': 'ok'`)
	s.frame(records(3, 1, 100, kv("a", "1")), "")
	s.note("a global table is followed for ever")
	s.frame(restore(1, 1, 1, "v1:g:2:0:2", kv("JFK", "New York")), "")
	s.store("airports", "airports/0", "'IAH': 'Houston', 'JFK': 'New York'", "v1:g:2:0:2")
}

func reconnect(s *script) {
	s.note("the socket ends with a commit in flight: the worker never sends it again; the sidecar brings it to its end first")
	s.running()
	s.frame(records(1, 1, 100, kv("a", "1"), kv("b", "2"), kv("c", "3")), "")
	s.frame(writes(2, 1, 2, kv("a", "1")), "")
	s.commit(2, 1, 101)
	s.note("these writes have no commit yet: they are dropped on both sides")
	s.frame(writes(2, 1, 3, kv("b", "1")), "")
	s.close("worker", 0)
	s.acknowledged(2)
	s.store("plane_stats", "flights/3", "", "")
	s.hello(2)
	s.assign(1, 2, 1, 101)
	s.opened(1, 2, "")
	s.frame(restore(2, 2, 0, "v1:a:1:0:1", kv("a", "1")), "")
	s.store("plane_stats", "flights/3", "'a': '1'", "v1:a:1:0:1")
	s.ready(2, 2)
	s.frame(records(1, 2, 101, kv("b", "2"), kv("c", "3")), "")
	s.note("commit ids belong to the connection: 2 again")
	s.frame(writes(2, 2, 2, kv("b", "1")), "")
	s.commit(2, 2, 102)
	s.acknowledged(2)
	s.committed(2, 2, "v1:a:2:0:2")
	s.store("plane_stats", "flights/3", "'a': '1', 'b': '1'", "v1:a:2:0:2")
}
