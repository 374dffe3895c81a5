// Package differential compares the simulated Redis of simredis with a redis-server. Its test runs random commands, among them calls of
// every script of rlock, on both at the same virtual time. Replies, messages and the keys that are left must be equal, byte for byte.
package differential
