package rlockrueidis

import "github.com/go-rlock/rlock/internal/driver"

// The name says what to do if it is undefined: take the same minor version of rlock and of this module. The file is the first of the
// package, because the compiler shows only the first errors.
const _ = driver.RlockAndRlockrueidisMustHaveTheSameMinorVersion1
