package config

// tune is the root package's. This package cannot name its types.
var tune func(change func(*Config)) (option any)

// Tune makes a rlock.Option of a change that no option of the root makes. Only tests call it.
func Tune(change func(*Config)) (option any) { return tune(change) }

// Tunes sets what Tune does. Only the root package calls it, while it is initialized.
func Tunes(f func(change func(*Config)) (option any)) struct{} {
	tune = f
	return struct{}{}
}
