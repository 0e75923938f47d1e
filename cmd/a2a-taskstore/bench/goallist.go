package bench

const (
	oneKiB = 1 << 10
)

func with100kTasks(c Case) bool { return c.Tasks == 100_000 }

func with1000Readers(c Case) bool { return c.Readers == 1000 }

// goals are the figures that the store is to reach.
var goals = []goal{
	{
		name: "save on memory, of the echo", limit: 0.85, least: true,
		find: each(Service, in("save", "memory", callers(64)), against(Echo, Throughput)),
	},
	{
		name: "get on memory, of the echo", limit: 0.85, least: true,
		find: each(Service, in("get", "memory", callers(64)), against(Echo, Throughput)),
	},
	{
		name: "save on pebble, of the floor", limit: 0.8, least: true,
		find: each(Service, in("save", "pebble", callers(64, 256)), ofFloor(Bare)),
	},
	{
		name: "bytes written per save of 1 KiB on pebble", limit: 6 << 10,
		find: each(Service, in("save", "pebble", callers(64, 256), sized(oneKiB)), value(Written)),
	},
	{
		name: "save on postgres, of the floor", limit: 0.8, least: true,
		find: each(Service, in("save", "postgres", callers(64, 256)), ofFloor(Bare)),
	},
	{
		name: "save on postgres, of a connection per caller", limit: 2, least: true,
		find: each(Service, in("save", "postgres", callers(64, 256)), against(BarePerCaller, Throughput)),
	},
	{
		name: "p99 of a save on postgres, of a connection per caller", limit: 0.5,
		find: each(Service, in("save", "postgres", callers(64, 256)), against(BarePerCaller, P99)),
	},
	{
		name: "save on postgres, one caller, of the statement and an echo", limit: 0.9, least: true,
		find: each(Service, in("save", "postgres", callers(1)), ofFloor(BarePerCaller)),
	},
	{
		name: "w1 on postgres, cost of the statement", limit: 1.25,
		find: each(Service, in("w1", "postgres"), costAgainst(BarePerCaller)),
	},
	{
		name: "w1 on postgres, WAL per event of 100 B", limit: 1 << 10,
		find: each(Service, in("w1", "postgres", sized(100)), value(Written)),
	},
	{
		name: "w1, cost of an event at the end, of the beginning", limit: 1.15,
		find: both(
			each(Service, in("w1", ""), lastOfFirst(stepP50)),
			each(DropIn, in("w1", ""), lastOfFirst(stepP50))),
	},
	{
		name: "w1, bytes written for an event at the end, of the beginning", limit: 1.15,
		find: each(Service, in("w1", ""), lastOfFirst(stepWritten)),
	},
	{
		name: "w1 of 100 B on memory, drop-in, time of a2a-go's store", limit: 0.5,
		find: each(DropIn, in("w1", "memory", sized(100)), costAgainst(SDK)),
	},
	{
		name: "w1 of 1 KB on memory, drop-in, time of a2a-go's store", limit: 0.25,
		find: each(DropIn, in("w1", "memory", sized(1000)), costAgainst(SDK)),
	},
	{
		name: "w2, w3: cost of a status change, of one on an empty task", limit: 1.15,
		find: each(Service, in("w2w3", ""), against(Empty, P50)),
	},
	{
		name: "w4: cost of the last appends, of the first", limit: 1.15,
		find: each(Service, in("w4", ""), lastOfFirst(stepP50)),
	},
	{
		name: "page after many updates on pebble, of a fresh store", limit: 1.3,
		find: each(Service, in("churn", "pebble"), against(Fresh, P50)),
	},
	{name: "w5: page of the largest store, of the smallest", limit: 1.5, find: largestOfSmallest},
	{name: "w5: deep page, of the first", limit: 1.2, find: deepOfFirst},
	{
		name: "w5: first page of 100 k tasks, times as fast as a2a-go's store", limit: 30, least: true,
		find: each(Service, in("w5", "", variant(pageFirst), with100kTasks), against(SDK, Throughput)),
	},
	{
		name: "w5: the same with the total", limit: 5, least: true,
		find: each(Service, in("w5", "", variant(pageTotal), with100kTasks), against(SDK, Throughput)),
	},
	{
		name: "w7: µs to readers over the RPC, one replica", limit: 1000,
		find: each(Service, in("w7", "", variant(oneReplica)), overRPC),
	},
	{
		name: "w7: µs to readers across replicas, p50", limit: 5000,
		find: each(Service, in("w7", "", variant(twoReplicas)), value(DeliverP50)),
	},
	{
		name: "w7: µs to readers across replicas, p99", limit: 25_000,
		find: each(Service, in("w7", "", variant(twoReplicas)), value(DeliverP99)),
	},
	{
		name: "w7: cost of an append with 1,000 readers, of one without", limit: 1.2,
		find: each(Service, in("w7", "", variant(oneReplica), with1000Readers), against(Quiet, P50)),
	},
	{name: "w8: server memory per idle reader", limit: 40 << 10, find: each(Service, in("w8", ""), value(Memory))},
	{
		name: "w8: p99 of a save beside idle readers, of one without", limit: 1.2,
		find: each(Service, in("w8", ""), against(Quiet, P99)),
	},
	{
		name: "w9: ms to SERVING after a clean stop", limit: 300,
		find: each(Service, in("w9", "", variant(afterStop)), value(Ready)),
	},
	{
		name: "w9: ms to SERVING after kill -9", limit: 1000,
		find: each(Service, in("w9", "", variant(afterKill)), value(Ready)),
	},
	{
		name: "linear: w1", limit: 3,
		find: both(each(Service, in("w1", ""), gate), each(DropIn, in("w1", ""), gate)),
	},
	{name: "linear: w2, w3", limit: 3, find: each(Service, in("w2w3", ""), gate)},
	{name: "linear: w4", limit: 3, find: each(Service, in("w4", ""), gate)},
}
