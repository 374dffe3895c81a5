package main

import "testing"

// The first time that a colour and a mark both come again must be beyond the number of libraries in any scenario: readers take
// the curves of the same look for one library.
func TestNoTwoCurvesLookAlike(t *testing.T) {
	t.Parallel()
	for _, sc := range scenarios() {
		seen := make(map[any]string)
		i := 0
		for _, e := range entrants() {
			if !e.enters(sc) || e.name == floor {
				continue
			}
			look := style(i)
			if other, ok := seen[look]; ok {
				t.Errorf("%s: %s looks like %s", sc.id, e.name, other)
			}
			seen[look] = e.name
			i++
		}
	}
}
