package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/go-rlock/rlock/cmd/rlock/internal/catalog"
	"github.com/go-rlock/rlock/cmd/rlock/internal/deploy"
	"github.com/go-rlock/rlock/internal/fault"
)

// failure is an error of Redis, or on the way to it.
type failure struct {
	what, where, why string
	err              error
}

// Error implements error.
func (f *failure) Error() string { return fmt.Sprintf("cannot %s at %s: %s", f.what, f.where, f.why) }

// Unwrap returns the error.
func (f *failure) Unwrap() error { return f.err }

// asked returns an error that says what was asked of whom. Errors that are not about Redis stay as they are.
func (a *app) asked(what, where string, err error) error {
	var known *exit
	if err == nil || errors.As(err, &known) || errors.Is(err, errWrite) || errors.Is(err, context.Canceled) || code(err) == exitUsage {
		return err
	}
	var network net.Error
	var handshake *deploy.HandshakeError
	f := &failure{what, where, reason(err), err}
	switch {
	case errors.As(err, &handshake):
		f.why = handshake.Error()
	case redis.HasErrorPrefix(err, "NOPERM") && !strings.Contains(f.why, pages):
		f.why += ". See " + pages + "SECURITY.md#what-rlock-needs-of-redis"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		f.why = fmt.Sprintf("no answer within %v", a.config.Timeout)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		f.why = "the server has closed the connection, as one that wants TLS does: see --tls"
	}
	return f
}

func code(err error) int {
	code, _ := outcome(err)
	return code
}

// reason returns the text of an error without what rlock was doing, which the command says in its own words.
func reason(err error) string {
	var op *fault.OpError
	for errors.As(err, &op) {
		err = op.Err
	}
	return strings.TrimPrefix(err.Error(), "rlock: ")
}

// lastOf returns the text of what an error of the network is about.
func lastOf(err error) string {
	var address *net.AddrError
	var number syscall.Errno
	switch {
	case errors.As(err, &address):
		return address.Err
	case errors.As(err, &number):
		return number.Error()
	}
	return err.Error()
}

// lockNamed returns how messages name a lock.
func lockNamed(name string) string { return "lock " + fault.Quote(name) }

func notHeld(name string) error { return fmt.Errorf("%s is not held", lockNamed(name)) }

func exclude(one, other string) error {
	return usage(fmt.Errorf("--%s and --%s cannot be used together", one, other))
}

// more stands for any number of further arguments, as the last one.
const more = "..."

// takes checks that a command has these arguments. None may be empty.
func takes(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		line := strings.TrimSuffix(cmd.CommandPath(), " "+cmd.Name()) + " " + cmd.Use
		for i, name := range names {
			switch {
			case name == more:
				return nil
			case i == len(args):
				return usage(fmt.Errorf("%s is missing: %s", name, line))
			case args[i] == "":
				return usage(fmt.Errorf("%s is empty", name))
			}
		}
		if len(args) > len(names) {
			return usage(fmt.Errorf("%q is one argument too many: %s", args[len(names)], line))
		}
		return nil
	}
}

// helpText has what was asked for first. The flags that say which Redis it is are those of all subcommands, and only in the help of the command.
const helpText = `{{.Short}}.

Usage:
  {{if .HasAvailableSubCommands}}{{.CommandPath}} COMMAND{{else}}{{.UseLine}}{{end}}
{{if .HasAvailableSubCommands}}
Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}

{{.Long}}
{{end}}{{with .LocalFlags.FlagUsages}}
Flags:
{{.}}{{end}}{{if .HasParent}}  and those that say which Redis it is, such as --url, --addr, --cluster: see {{.Root.Name}} --help
{{end}}{{with .Example}}
Examples:
{{.}}
{{end}}{{if not .HasAvailableSubCommands}}
{{.Long}}
{{end}}`

// speak has cobra's own commands and errors say what they say in words of this command.
func speak(root *cobra.Command) {
	root.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return unknown(cmd, args[0])
	}
	help := func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	root.RunE = help
	root.SetHelpTemplate(helpText)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage(fmt.Errorf("%s. See %s --help", flagText(cmd, err), cmd.CommandPath()))
	})
	root.SetHelpCommand(&cobra.Command{
		Use: "help [COMMAND]", Short: "Help about any command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || cmd == root && len(rest) > 0 {
				return unknown(root, args[0])
			}
			return cmd.Help()
		},
	})
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() != "completion" {
			continue
		}
		var shells []string
		for _, shell := range cmd.Commands() {
			shell.Args = takes()
			shells = append(shells, shell.Name())
		}
		slices.Sort(shells)
		cmd.RunE = help
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			last := len(shells) - 1
			return usage(fmt.Errorf("%q is none of %s and %s. See %s --help", args[0], strings.Join(shells[:last], ", "), shells[last], cmd.CommandPath()))
		}
	}
}

func unknown(root *cobra.Command, name string) error {
	text := fmt.Sprintf("there is no command %q", name)
	root.SuggestionsMinimumDistance = 2
	if near := root.SuggestionsFor(name); len(near) > 0 {
		text += fmt.Sprintf("; do you mean %q?", near[0])
	} else {
		text += "."
	}
	return usage(errors.New(text + " See rlock --help"))
}

// completes has a shell complete the values of a flag.
func completes(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
}

// completeNames returns names of locks that begin as what is typed, for a shell to complete.
func (a *app) completeNames(_ *cobra.Command, args []string, typed string) (names []string, _ cobra.ShellCompDirective) {
	const enough, patience = 100, 2 * time.Second
	a.config.Timeout = patience
	rdb, locks, _, finish, err := a.open()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer finish()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for row, err := range a.catalog(rdb, locks).Find(ctx, catalog.Filter{Prefix: typed}) {
		if err != nil || len(names) == enough {
			break
		}
		names = append(names, row.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// flagText returns what is wrong with a flag.
func flagText(cmd *cobra.Command, err error) string {
	var (
		none  *pflag.NotExistError
		empty *pflag.ValueRequiredError
		wrong *pflag.InvalidValueError
	)
	flag := func(name, short string) string {
		if short != "" {
			return "-" + name
		}
		return "--" + name
	}
	switch {
	case errors.As(err, &none):
		return fmt.Sprintf("%s has no flag %s", cmd.Name(), flag(none.GetSpecifiedName(), none.GetSpecifiedShortnames()))
	case errors.As(err, &empty):
		return flag(empty.GetSpecifiedName(), empty.GetSpecifiedShortnames()) + " needs a value"
	case errors.As(err, &wrong):
		is := map[string]string{
			"duration": "which is no duration such as 10s", "int": "which is no whole number", "bool": "which is neither true nor false",
		}[wrong.GetFlag().Value.Type()]
		if is != "" {
			return fmt.Sprintf("--%s is %q, %s", wrong.GetFlag().Name, wrong.GetValue(), is)
		}
	}
	return err.Error()
}
