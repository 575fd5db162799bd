package specgen

func locate(s *script) {
	s.note("where is a key: the answer names members of the group, and comes whatever the tasks of this worker do")
	s.hello(1)
	s.cause("the group has three members; this one is m1",
		`'holders': {'flights/3': {'active': {'member': 'm2', 'address': '10.0.0.8:8080'}, 'standbys': [{'member': 'm3', 'address': '10.0.0.9:8080', 'lag': 40}, {'member': 'm1', 'lag': -1}]}}`)
	s.note("N668DN belongs to partition 3 of 8, as murmur2 has it")
	s.worker(`'locate', 'id': 2, 'table': 'plane_stats', 'key': 'TjY2OERO'`)
	s.sidecar(`'located', 're': 2, 'set': 'flights', 'partition': 3, 'task': 'flights/3', 'active': {'member': 'm2', 'address': '10.0.0.8:8080'}, ` +
		`'standbys': [{'member': 'm3', 'address': '10.0.0.9:8080', 'lag': 40}, {'member': 'm1', 'lag': -1}], 'stale': false`)
	s.worker(`'locate', 'id': 3, 'set': 'flights', 'partition': 4`)
	s.note("nobody holds flights/4 at this moment")
	s.sidecar(`'located', 're': 3, 'set': 'flights', 'partition': 4, 'task': 'flights/4', 'stale': false`)
	s.cause("m2 has gone and the group rebalances: the answer is what was known before",
		`'holders': {'flights/3': {'active': {'member': 'm2', 'address': '10.0.0.8:8080'}}}, 'stale': true`)
	s.worker(`'locate', 'id': 4, 'set': 'flights', 'table': 'plane_stats', 'partition': 3`)
	s.sidecar(`'located', 're': 4, 'set': 'flights', 'partition': 3, 'task': 'flights/3', 'active': {'member': 'm2', 'address': '10.0.0.8:8080'}, 'stale': true`)
	s.given("")
	s.assign(1, 1, 1, 100)
	s.opened(1, 1, "")
	s.ready(2, 1)
	s.worker(`'locate', 'id': 5, 'table': 'planes', 'key': 'TjY2OERO'`)
	s.sidecar(`'error', 're': 5, 'code': 'unknown_table', 'message': 'there is no such table'`)
	s.worker(`'locate', 'id': 6, 'set': 'flights', 'partition': 8`)
	s.sidecar(`'error', 're': 6, 'code': 'unknown_table', 'message': 'there is no such partition'`)
	s.note("all requests of the worker share their numbers")
	s.frame(records(1, 1, 100, kv("N668DN", "late")), "")
	s.frame(writes(2, 1, 7, kv("N668DN", "1")), "")
	s.commit(7, 1, 101)
	s.acknowledged(7)
	s.committed(7, 1, "v1:a:1:0:1")
	s.store("plane_stats", "flights/3", "'N668DN': '1'", "v1:a:1:0:1")
}
