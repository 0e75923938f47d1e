// Package postgres keeps tasks in PostgreSQL. Any number of Stores, in any number of processes, may share one database:
// they behave as one.
//
// # How a write works
//
// Every write is a guess that the database checks. The store reads the row of the task (or remembers it from its last
// write), lets package backend decide, and sends one statement that replaces the row only if its stamp, a random number
// that every change renews, is still the one that the decision was made on; everything else that the write leaves hangs on
// that condition. A write whose guess was wrong has changed nothing, and starts over. So a decision is made in one place,
// no transaction is ever open across a round trip (a replica that stalls holds no lock), and repeating a statement whose
// outcome was lost can do no harm.
//
// A guess proves itself only by writing. What writes nothing, a refusal or a replay, is therefore decided on a row that was
// read after the call came in, never on a remembered one.
//
// # How commits are shared
//
// A caller who finds nobody before it carries out its write itself, with one statement, that is with one commit. The others
// queue theirs. A few committers take what is queued and write all of it with one statement, whenever they are free: there is
// no timer. One id's writes go through the same committer, one per batch.
//
// # How readers hear of writes
//
// After a commit the store sends one NOTIFY that names what changed, in a transaction of its own: within the commit's, its
// lock would serialize the commits of all replicas. It is a hint, and may be lost; PollInterval says how often to look. A
// replica that hears of no other keeps its hints to itself.
package postgres
