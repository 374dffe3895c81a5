// Package torture breaks Redis, the network and the processes that use rlock, on purpose and in every way that it knows,
// while many owners lock and unlock, and checks from what they noted whether rlock kept its promises.
//
// A [Scene] is a topology with a workload, faults ([nemeses]) and what must hold ([check]). Its seed fixes what every worker
// and every nemesis draws; the schedule of goroutines, processes and packets it cannot fix. Workers are goroutines of this
// process and of child processes, which can be stopped and killed. Times are of the machine's monotonic clock, which all
// processes share.
//
// `make torture` plays the short program, `make torture TOPOLOGY=cluster SEED=7 DURATION=1h` one topology for long, and
// `make mutants` shows that what is planted in rlock's source is found.
package torture
