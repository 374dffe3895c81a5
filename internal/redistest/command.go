package redistest

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Command is a command on its way to Redis: the name in lower case, then the arguments.
type Command []string

// Named returns a function that matches commands by name. The name must be in lower case.
func Named(name string) func(Command) bool {
	return func(c Command) bool { return c[0] == name }
}

// readCommand reads one command as clients send it: an array of bulk strings.
func readCommand(in *bufio.Reader) (Command, []byte, error) {
	var raw []byte
	line := func(mark byte) (int, error) {
		s, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		raw = append(raw, s...)
		if s[0] != mark {
			return 0, fmt.Errorf("got %q, want a line that begins with %q", s, mark)
		}
		return strconv.Atoi(strings.TrimSpace(s[1:]))
	}
	n, err := line('*')
	if err != nil {
		return nil, nil, err
	}
	cmd := make(Command, n)
	for i := range cmd {
		size, err := line('$')
		if err != nil {
			return nil, nil, err
		}
		arg := make([]byte, size+2)
		if _, err := io.ReadFull(in, arg); err != nil {
			return nil, nil, err
		}
		raw = append(raw, arg...)
		cmd[i] = string(arg[:size])
	}
	if n > 0 {
		cmd[0] = strings.ToLower(cmd[0])
	}
	return cmd, raw, nil
}
