// Package torture breaks Redis, the network and processes on purpose while many owners lock and unlock. The owners record
// what they see, and checkers compare the record with the promises of rlock: those of [promises], which the simulation has, too.
//
// A [Scene] is a topology with a workload, faults ([nemeses]) and promises ([Check]). Its seed fixes what every worker and
// every nemesis draws. It cannot fix the schedule of goroutines, processes and packets. Workers are goroutines of this
// process and of child processes, which can be stopped and killed. All processes share the machine's monotonic clock.
//
// `make torture` runs the short program, and `make torture TOPOLOGY=cluster SEED=7 DURATION=1h` runs one topology for an
// hour. `make mutants` plants bugs in rlock and shows that the torture finds them.
package torture
