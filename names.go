package rlock

import (
	"fmt"
	"strings"
)

// maxName is the longest name of a lock in Redis, in bytes.
const maxName = 64 << 10

// derived is Redisson's rule for the keys and channels that belong to a lock: they carry its name as hash tag, so that
// a cluster keeps them in the lock's slot.
func derived(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}

// suffixed is Redisson's rule for keys that begin with the name.
func suffixed(name, suffix string) string {
	if strings.Contains(name, "{") {
		return name + ":" + suffix
	}
	return "{" + name + "}:" + suffix
}

// checkName refuses what cannot be a lock's name in Redis.
func checkName(name string, cluster bool) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrInvalidName)
	case len(name) > maxName:
		return fmt.Errorf("%w: %s is longer than 64 KiB", ErrInvalidName, quote(name))
	case cluster && hashTag(name) != hashTag(derived("", name)):
		return fmt.Errorf("%w: the braces of %s put the keys of the lock into different slots of the cluster",
			ErrInvalidName, quote(name))
	}
	return nil
}

// hashTag returns the part of a key that decides its slot in a cluster.
func hashTag(key string) string {
	_, after, opened := strings.Cut(key, "{")
	tag, _, closed := strings.Cut(after, "}")
	if opened && closed && tag != "" {
		return tag
	}
	return key
}

// slot returns the slot of a key in a cluster: CRC-16/XMODEM of its tag, modulo 16384.
func slot(key string) uint16 {
	var crc uint16
	for _, b := range []byte(hashTag(key)) {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % 16384
}
