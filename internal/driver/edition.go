package driver

// These names are for the go command to show. The driver modules use packages of this module that no other module can use, so a version of
// rlock fits only those driver modules that were made for it: the ones of the same minor version. A driver module names the constant
// with the number of the edition of these packages that it was made for. If a user takes another minor version of rlock alone, the name is
// not there, and the compiler says what must be so. A new edition, which the test of this file asks for, begins with a new
// minor version. Packages that driver modules import keep their names, or the go command would miss them before it looks for these.
const (
	RlockAndRlockrueidisMustHaveTheSameMinorVersion1 = true
	RlockAndRlockvalkeyMustHaveTheSameMinorVersion1  = true
)
