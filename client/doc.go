// Package client is the Go client of the A2A task store.
//
// [Dial] gives a [Client], which is safe for concurrent use and meant to be shared: one per process and store. It connects
// when it is first used, spreads its calls over every address that the target resolves to, and reconnects by itself.
//
// # What is guaranteed
//
//   - A write is safe to repeat. Every [Client.Save] and [Client.AppendEvent] carries a write id, a random one if the caller
//     gave none, and the store answers a repetition with the first reply instead of writing again.
//   - Outages of some seconds are absorbed. A call that the store could not answer is repeated, with jittered exponential
//     backoff, until its context ends or, if that has no deadline, until the retry budget is used up ([WithRetryBudget]).
//     Conflicts are never repeated: what was decided on old data has to be decided again, which is what [Client.Update] does.
//   - [Client.Follow] yields every event of a log exactly once and in order, across broken connections, restarts of the
//     store and changes of replica. Where that cannot be kept, it ends with an error.
//   - Requests are not changed, and nothing that the caller passed is kept after a call has returned.
//   - Errors are *[Error] and match the sentinels of this package, context.Canceled or context.DeadlineExceeded with
//     [errors.Is]. No error carries a gRPC status: a program that is itself a gRPC server would otherwise hand the store's
//     status to its own callers.
//
// # What a lost reply leaves open
//
// The store remembers the latest write id of a task. If the reply to a Save is lost and another writer overtakes it before
// the repetition arrives, the precondition decides about the repetition: with a version it ends in [ErrVersionConflict],
// with absent in [ErrAlreadyExists], although the first attempt took effect; with any, present and not_terminal it writes
// once more. [Error.Attempts] above 1 is the sign that this is possible. In the same way a repeated Delete may report that
// there was nothing to delete.
package client
