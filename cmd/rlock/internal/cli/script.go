package cli

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/go-rlock/rlock/internal/lua"
)

func (a *app) script() *cobra.Command {
	return &cobra.Command{
		Use: "script [SHA]", Short: "Show a script that rlock sends, given the SHA that SLOWLOG or MONITOR shows",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return takes("SHA")(cmd, args)
		},
		Long: `script prints a script of this version of rlock, below a header that Redis does not get: what the script does, its keys and arguments,
what it replies, the kinds of lock that it is for, and the rules that it keeps (docs/rules.md).

SHA is what SLOWLOG GET and MONITOR show behind EVALSHA, or as much of it as begins no other. Without it, script lists all scripts. It
asks no Redis. The exit code is 1 if no script has that SHA: another version of rlock may have sent it.`,
		Example: "  rlock script\n  rlock script | grep fair",
		RunE: func(_ *cobra.Command, args []string) error {
			all := lua.All()
			var text strings.Builder
			if len(args) == 0 {
				for _, s := range all {
					fmt.Fprintf(&text, "%s %s\n", s.Digest, s.Name)
				}
				return a.print(a.stdout, text.String())
			}
			s, err := scriptOf(all, strings.ToLower(args[0]))
			if err != nil {
				return err
			}
			return a.print(a.stdout, s.File)
		},
	}
}

// digits is the beginning of a SHA-1.
var digits = regexp.MustCompile(`^[0-9a-f]{1,40}$`)

// scriptOf returns the script whose digest begins like that.
func scriptOf(all []lua.Script, digest string) (lua.Script, error) {
	if !digits.MatchString(digest) {
		return lua.Script{}, usage(errors.New("SHA is up to 40 hexadecimal digits"))
	}
	found := slices.DeleteFunc(slices.Clone(all), func(s lua.Script) bool { return !strings.HasPrefix(s.Digest, digest) })
	switch len(found) {
	case 0:
		return lua.Script{}, &exit{code: exitNo, err: fmt.Errorf("no script of rlock %s has the SHA %s", version(), digest)}
	case 1:
		return found[0], nil
	}
	return lua.Script{}, usage(fmt.Errorf("the SHAs of %d scripts begin with %s", len(found), digest))
}
