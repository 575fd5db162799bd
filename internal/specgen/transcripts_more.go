package specgen

func aborted(s *script) {
	s.note("one commit is refused: the ones behind it fail alike, the epoch is lost, the task is opened anew")
	s.running()
	s.frame(records(1, 1, 100, kv("a", "1"), kv("b", "2")), "")
	s.frame(writes(2, 1, 2, kv("a", "0123456789")), "")
	s.commit(2, 1, 101)
	s.frame(writes(2, 1, 3, kv("b", "1")), "")
	s.commit(3, 1, 102)
	s.cause("the topic flights-app-plane_stats-changelog takes no record of that size",
		`'refuse': 2, 'code': 'record_too_large'`)
	s.sidecar(`'aborted', 're': 2, 'task': 'flights/3', 'epoch': 1, 'code': 'record_too_large', 'message': 'a record is over max.message.bytes of flights-app-plane_stats-changelog'`)
	s.sidecar(`'aborted', 're': 3, 'task': 'flights/3', 'epoch': 1, 'code': 'commit_failed', 'message': 'commit 2 was not committed'`)
	s.sidecar(`'lost', 'task': 'flights/3', 'epoch': 1, 'code': 'commit_failed', 'message': 'commit 2 was not committed'`)
	s.store("plane_stats", "flights/3", "", "")
	s.assign(3, 2, 4, 100)
	s.opened(3, 2, "")
	s.ready(4, 2)
	s.frame(records(4, 2, 100, kv("a", "1"), kv("b", "2")), "")
	s.frame(writes(5, 2, 4, kv("a", "1"), kv("b", "1")), "")
	s.commit(4, 2, 102)
	s.acknowledged(4)
	s.committed(4, 2, "v1:a:2:0:1")
	s.store("plane_stats", "flights/3", "'a': '1', 'b': '1'", "v1:a:2:0:1")
}

func unknown(s *script) {
	s.note("how a commit ended cannot be told: the replay tells")
	s.running()
	s.frame(records(1, 1, 100, kv("a", "1")), "")
	s.frame(writes(2, 1, 2, kv("a", "1")), "")
	s.commit(2, 1, 101)
	s.cause("Kafka stays away longer than the delivery timeout; the writes of commit 2 did arrive, its position did not",
		`'doubt': 2, 'code': 'kafka_unreachable', 'ends': {'plane_stats': 1}`)
	s.sidecar(`'waiting', 'code': 'kafka_unreachable', 'message': 'no broker answers at localhost:9092'`)
	s.sidecar(`'unknown', 're': 2, 'task': 'flights/3', 'epoch': 1, 'code': 'kafka_unreachable', 'message': 'no broker answered within 2m0s'`)
	s.sidecar(`'lost', 'task': 'flights/3', 'epoch': 1, 'code': 'commit_failed', 'message': 'the end of commit 2 is not known'`)
	s.store("plane_stats", "flights/3", "", "")
	s.cause("Kafka is back",
		`'back': true`)
	s.sidecar(`'waiting', 'code': 'ok'`)
	s.assign(3, 2, 4, 100)
	s.opened(3, 2, "")
	s.frame(restore(5, 2, 0, "v1:a:1:0:1", kv("a", "1")), "")
	s.ready(4, 2)
	s.store("plane_stats", "flights/3", "'a': '1'", "v1:a:1:0:1")
	s.frame(records(4, 2, 100, kv("a", "1")), "")
}

func drain(s *script) {
	s.note("the sidecar is told to end: every task is revoked, then the socket is closed for good")
	s.running()
	s.frame(records(1, 1, 100, kv("a", "1")), "")
	s.cause("the sidecar gets SIGTERM",
		`'drain': true`)
	s.sidecar(`'revoke', 'id': 3, 'task': 'flights/3', 'epoch': 1, 'deadline_ms': 10000, 'code': 'drain'`)
	s.frame(writes(2, 1, 2, kv("a", "1")), "")
	s.commit(2, 1, 101)
	s.worker(`'released', 're': 3, 'task': 'flights/3', 'epoch': 1`)
	s.acknowledged(2)
	s.committed(2, 1, "v1:a:1:0:1")
	s.store("plane_stats", "flights/3", "'a': '1'", "v1:a:1:0:1")
	s.note("do not reconnect; the worker may exit with 0")
	s.close("sidecar", 4411)
}

func refused(s *script) {
	s.note("what hello declares does not fit Kafka")
	s.connect()
	s.worker(`'hello', 'id': 1, ` + me + `, ` + window + `, 'group': 'flights-app', 'sets': [{'name': 'joined', 'sources': ['flights', 'weather']}]`)
	s.sidecar(`'welcome', 're': 1, `+answered, 1)
	s.cause("flights has 8 partitions, weather has 3",
		`'misfit': 'count_mismatch'`)
	s.sidecar(`'error', 'code': 'count_mismatch', 'message': 'topics of set joined differ: flights has 8 partitions, weather has 3; create both with the same number'`)
	s.close("sidecar", 4404)
}

func misdeclared(s *script) {
	s.note("what hello declares contradicts itself: refused without a look at Kafka")
	s.connect()
	s.worker(`'hello', 'id': 1, ` + me + `, ` + window + `, 'group': 'flights-app', 'sets': [{'name': 'airports', 'sources': ['flights']}], 'globals': [{'name': 'airports', 'topic': 'airports'}]`)
	s.sidecar(`'error', 're': 1, 'code': 'bad_declaration', 'message': 'the name airports is used twice among sets and globals: give each its own'`)
	s.close("sidecar", 4404)
}

func version(s *script) {
	s.note("no version in common")
	s.connect()
	s.worker(`'hello', 'id': 1, 'versions': [9, 8], 'client': {'name': 'my-worker', 'version': '0.1'}, ` + window)
	s.sidecar(`'error', 're': 1, 'code': 'version', 'message': 'the worker speaks versions 9 and 8, this sidecar speaks 1'`)
	s.close("sidecar", 4410)
}

func superseded(s *script) {
	s.note("a newer worker has said hello to the same sidecar: this one must not come back by itself")
	s.running()
	s.frame(records(1, 1, 100, kv("a", "1")), "")
	s.cause("another worker connects and says hello",
		`'newcomer': true`)
	s.sidecar(`'error', 'code': 'superseded', 'message': 'a newer worker has connected to this sidecar'`)
	s.close("sidecar", 4409)
}

func credit(s *script) {
	s.note("limits are cumulative bytes of data frames; any positive rest permits one frame of any size; both directions")
	s.connect()
	s.worker(`'hello', 'id': 1, ` + me + `, 'max_frame': 134217728, 'credit': {'connection': 150, 'stream': 100}, 'group': 'flights-app', ` + declared)
	s.sidecar(`'welcome', 're': 1, 'version': 1, 'session': 'c1', 'sidecar': {'name': 'pillion', 'version': '0.1.0'}, 'features': ['locate'], 'group': 'flights-app', 'guarantee': 'at_least_once', ` +
		`'limits': {'max_frame': 16777216, 'max_control': 1048576, 'max_commit_bytes': 16777216, 'max_outstanding_commits': 2}, ` +
		`'credit': {'connection': 150, 'stream': 60}, 'deadlines': {'revoke_ms': 10000, 'worker_grace_ms': 10000, 'max_processing_ms': 300000}`)
	s.given("; three records wait")
	s.assign(1, 1, 1, 100)
	s.opened(1, 1, "")
	s.ready(2, 1)
	s.note("stream 1: 0 of 100 sent, so this frame of 66 bytes may go: 66 of 100; connection 66 of 150")
	s.frame(records(1, 1, 100, kv("0123456", "abc")), "")
	s.note("66 of 100 is a positive rest: another 66 may go, to 132 of 100; connection 132 of 150")
	s.frame(records(1, 1, 101, kv("0123456", "abc")), "")
	s.note("no rest on stream 1: the third frame waits until the worker has taken the first")
	s.worker(`'credit', 'connection': 216, 'streams': {'1': 166}`)
	s.frame(records(1, 1, 102, kv("0123456", "abc")), "")
	s.worker(`'credit', 'connection': 348, 'streams': {'1': 298}`)
	s.note("upward: stream 2 has 0 of 60, stream 3 has 0 of 60, the connection 0 of 150")
	s.frame(writes(2, 1, 2, kv("0123456", "abc")), "")
	s.note("stream 2 is at 66 of 60: a second frame on it is held back; the rest of the connection does not help")
	s.frame(writes(2, 1, 2, kv("0123456", "def")), "held")
	s.sidecar(`'credit', 'connection': 216, 'streams': {'2': 126}`)
	s.frame(writes(2, 1, 2, kv("0123456", "def")), "")
	s.commit(2, 1, 103)
	s.sidecar(`'credit', 'connection': 282, 'streams': {'2': 192, '99': 5}`)
	s.acknowledged(2)
	s.committed(2, 1, "v1:a:2:0:1")
	s.store("plane_stats", "flights/3", "'0123456': 'def'", "v1:a:2:0:1")
}

func standby(s *script) {
	s.note("a standby follows; promoted, it goes on from where it is; demoted, it follows again")
	s.helloStandby(1)
	s.cause("the group makes this member the standby of flights/3; the changelog ends at 2",
		`'stand_by': 'flights/3', 'ends': {'plane_stats': 2}`)
	s.sidecar(`'assign', 'id': 1, 'task': 'flights/3', 'set': 'flights', 'partition': 3, 'role': 'standby', 'epoch': 1, ` +
		`'tables': [{'name': 'plane_stats', 'topic': 'flights-app-plane_stats-changelog', 'kind': 'changelog', 'stream': 1}]`)
	s.opened(1, 1, "")
	s.frame(restore(1, 1, 0, "v1:a:2:0:1", kv("a", "1"), kv("b", "1")), "")
	s.frame(restore(1, 1, 2, "v1:a:3:0:2", kv("a", "2")), "")
	s.cause("the active dies; this member becomes the active; position 104 is committed",
		`'give': 'flights/3', 'positions': {'flights': 104}, 'ends': {'plane_stats': 4}`)
	s.frame(restore(1, 1, 3, "v1:a:4:0:3", kv("a", "3")), "")
	s.note("promoted comes behind the last restore frame: the tables are whole")
	s.sidecar(`'promoted', 'id': 2, 'task': 'flights/3', 'epoch': 2, 'sources': [{'topic': 'flights', 'stream': 2, 'position': 104}], ` +
		`'tables': [{'name': 'plane_stats', 'topic': 'flights-app-plane_stats-changelog', 'kind': 'changelog', 'stream': 3}], 'outputs': [{'topic': 'late-arrivals', 'stream': 4}]`)
	s.store("plane_stats", "flights/3", "'a': '3', 'b': '1'", "v1:a:4:0:3")
	s.worker(`'ready', 're': 2, 'task': 'flights/3', 'epoch': 2`)
	s.frame(records(2, 2, 104, kv("a", "x")), "")
	s.frame(writes(3, 2, 2, kv("a", "4")), "")
	s.commit(2, 2, 105)
	s.acknowledged(2)
	s.committed(2, 2, "v1:a:5:0:4")
	s.store("plane_stats", "flights/3", "'a': '4', 'b': '1'", "v1:a:5:0:4")
	s.cause("the group moves the task and leaves this member as its standby",
		`'stand_by': 'flights/3', 'ends': {'plane_stats': 5}`)
	s.sidecar(`'demoted', 'task': 'flights/3', 'epoch': 3, 'tables': [{'name': 'plane_stats', 'topic': 'flights-app-plane_stats-changelog', 'kind': 'changelog', 'stream': 5}]`)
	s.frame(restore(5, 3, 5, "v1:a:6:0:5", kv("b", "9")), "")
	s.store("plane_stats", "flights/3", "'a': '4', 'b': '9'", "v1:a:6:0:5")
}

func gap(s *script) {
	s.note("a frame that does not start where the one before ended is refused; the store is opened anew")
	s.hello(1)
	s.cause("flights/3 is given; the changelog ends at 60, position 100 is committed",
		`'give': 'flights/3', 'positions': {'flights': 100}, 'ends': {'plane_stats': 60}`)
	s.holds("plane_stats", "flights/3", "", "v1:a:40:0:1")
	s.assign(1, 1, 1, 100)
	s.opened(1, 1, "v1:a:40:0:1")
	s.frame(restore(2, 1, 40, "v1:a:41:0:1", kv("a", "1")), "")
	s.cause("a fault of the sidecar: it skips offset 41")
	s.frame(restore(2, 1, 42, "v1:a:43:0:1", kv("b", "2")), "dropped")
	s.worker(`'error', 'code': 'offset_mismatch', 'message': 'a frame starts at 42, the one before ended at 41', 'task': 'flights/3', 'epoch': 1, 'stream': 2`)
	s.sidecar(`'lost', 'task': 'flights/3', 'epoch': 1, 'code': 'offset_mismatch', 'message': 'a frame starts at 42, the one before ended at 41'`)
	s.store("plane_stats", "flights/3", "'a': '1'", "v1:a:41:0:1")
	s.assign(2, 2, 4, 100)
	s.opened(2, 2, "v1:a:41:0:1")
	s.frame(restore(5, 2, 41, "v1:a:43:0:1", kv("c", "3"), kv("b", "2")), "")
	s.store("plane_stats", "flights/3", "'a': '1', 'b': '2', 'c': '3'", "v1:a:43:0:1")
}

func requestErrors(s *script) {
	s.note("a refused request is answered and the socket stays open; what is unknown and optional is ignored")
	s.hello(1)
	s.line(`{"from": "sidecar", "message": {"type": "zz_news", "optional": true, "text": "ignore me"}}`)
	s.line(`{"from": "sidecar", "message": {"type": "zz_question", "id": 1}}`)
	s.worker(`'error', 're': 1, 'code': 'unknown_type', 'message': 'unknown message type zz_question'`)
	s.given("")
	s.assign(2, 1, 1, 100)
	s.opened(2, 1, "")
	s.ready(3, 1)
	s.frame(records(1, 1, 100, kv("a", "1"), kv("b", "1"), kv("c", "1")), "")
}

func storeFailed(s *script) {
	s.note("the worker cannot open a store: it says so, and gets the task again later")
	s.hello(1)
	s.cause("flights/3 is given; its changelog is empty, position 100 is committed",
		`'give': 'flights/3', 'positions': {'flights': 100}, 'ends': {'plane_stats': 0}`)
	s.assign(1, 1, 1, 100)
	s.worker(`'error', 're': 1, 'code': 'store_open_failed', 'message': 'disk full', 'task': 'flights/3', 'epoch': 1`)
	s.sidecar(`'lost', 'task': 'flights/3', 'epoch': 1, 'code': 'store_open_failed', 'message': 'disk full'`)
	s.cause("the sidecar tries again after a while",
		`'pass': true`)
	s.assign(2, 2, 4, 100)
	s.opened(2, 2, "")
	s.ready(3, 2)
}
