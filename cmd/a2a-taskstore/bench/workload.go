package bench

import "context"

// workload is a named run of comparisons.
type workload struct {
	name string
	help string
	run  func(ctx context.Context, s *session, backend string) error
	// durable: it is about stores that outlive their process.
	durable bool
	// owns: it starts, stops or fills the store itself, and cannot use one that runs elsewhere.
	owns bool
	// disk: it is about the disk, whatever the backend.
	disk bool
}

var workloads = []workload{
	{name: "fsync", help: "synced writes of 4 KiB to a file: the disk under everything", run: runSyncs, disk: true},
	{name: "save", help: "whole tasks replaced, with an event each, by many callers", run: runSaves},
	{name: "get", help: "whole tasks read, by many callers", run: runGets},
	{name: "list", help: "pages of 50 tasks, newest first, by many callers", run: runLists},
	{name: "mix", help: "of ten calls, six read a task, three replace one, one lists", run: runMix},
	{name: "w1", help: "a stream of chunks appended to one artifact, with an event each", run: runChunks},
	{name: "w2w3", help: "status changes of a task with a long history", run: runStatuses},
	{name: "w4", help: "messages appended to a history of bounded length", run: runHistory},
	{name: "w5", help: "pages of 50 of many tasks: first, deep, by context, by status, with the total", run: runPages, owns: true},
	{name: "churn", help: "pages after a million status updates, against a store freshly loaded", run: runChurn, owns: true},
	{name: "w6", help: "one key claimed by many at once", run: runClaims},
	{name: "w7", help: "from the start of an append to its readers", run: runDeliveries},
	{name: "w8", help: "thousands of idle readers: their memory, and what they cost a writer", run: runIdle, owns: true},
	{name: "w9", help: "start with many tasks stored, after a clean stop and after kill -9", run: runStarts, durable: true, owns: true},
}
