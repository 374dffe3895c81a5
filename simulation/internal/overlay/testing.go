package overlay

// testingEdits have each test run in a bubble of testing/synctest with all its subtests, which package testing does not allow.
var testingEdits = []edit{
	{
		"testing.go", "it imports the bubbles",
		"	\"internal/race\"\n",
		"	\"internal/race\"\n	\"internal/synctest\"\n",
	},
	{
		"testing.go", "a test that is no subtest runs in a bubble, whose end it awaits",
		"	go tRunner(t, f)\n\n	// The parent goroutine will block until",
		`	if t.level == 1 {
		ended := make(chan bool)
		go func() {
			defer close(ended)
			synctest.Run(func() { tRunner(t, f) })
		}()
		<-ended
	} else {
		go tRunner(t, f)
	}

	// The parent goroutine will block until`,
	},
	{
		"testing.go", "subtests run in turn",
		"func (t *T) Parallel() {\n",
		`func (t *T) Parallel() {
	if synctest.IsInBubble() {
		return
	}
`,
	},
}
