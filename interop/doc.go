// Package interop tests that rlock and Redisson exclude and wake each other: Go drives real Redisson clients, of the
// newest version and of an old one, in a Java program of its own (java/), a line of JSON for each request and reply.
//
// The tests build that program themselves, with Maven, and keep what they have built in .build and .m2. Where there is
// no Java they skip, unless RLOCK_REQUIRE_JAVA is 1: then they fail. RLOCK_REDISSON names other versions.
package interop
