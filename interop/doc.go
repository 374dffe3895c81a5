// Package interop tests that rlock and Redisson exclude and wake each other. Go drives real Redisson clients, of the newest
// version and of an old one, in a Java program (java/). Each request and each reply is a line of JSON.
//
// The tests build the program with Maven, and keep the results in .build and .m2. Without Java they skip, or fail if
// RLOCK_REQUIRE_JAVA is 1. RLOCK_REDISSON selects other versions.
package interop
