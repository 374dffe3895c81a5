// Package torture breaks real Redis servers, connections and processes on purpose while many owners lock and unlock: it shows what Redis,
// Sentinel, Cluster, the kernel and the client library do, which the simulation only plays.
//
// A [Scene] is a topology with faults ([nemeses]). Its seed fixes what every worker and every nemesis draws. It cannot fix the schedule of
// goroutines, processes and packets. The owners record what they see, and few judges look at the record. Each is certain, however slow the
// machine is:
//
//   - [History.exclusion], where Redis keeps its data: no two owners believe at once that they have a lock, and fencing tokens rise.
//   - [History.late] and [History.stuck]: a call returns soon after the end of its context, and who waits for a free lock gets it once all
//     trouble is over.
//   - [Arena.settle] and [Arena.clean]: at the end nothing is left in the processes and in Redis.
//
// All other promises are for the simulation to judge, which plays more schedules, in virtual time.
package torture
