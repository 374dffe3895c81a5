package cli

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/go-rlock/rlock/cmd/rlock/internal/catalog"
	"github.com/go-rlock/rlock/internal/fault"
)

func (a *app) free() *cobra.Command {
	var ifHolders []string
	var yes bool
	cmd := &cobra.Command{
		Use: "free NAME", Short: "Take a lock away from its holder", Args: takes("NAME"),
		Long: `free takes a lock away from its holder, or a permit of a semaphore, and wakes those who wait for it. It shows whose lock it breaks, and asks.

It frees the lock only if nobody else than the holders that it has shown has it by then: Redis compares and frees in one step.
` + catalog.Overlap + `

The exit code is 1 if the lock was not freed.`,
		Example: "  rlock free orders:42\n  rlock free orders:42 --yes --if-holder 71b96ce8-2746-4f0e-9d0e-0c1f0e2a3b4c:87",
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withCatalog("free "+lockNamed(args[0]), func(ctx context.Context, c *catalog.Catalog) error {
				return a.freeLock(ctx, c, args[0], ifHolders, yes)
			})
		},
	}
	cmd.Flags().StringArrayVar(&ifHolders, "if-holder", nil, "free it only from this holder, or permit, as show shows it; may be repeated")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.ValidArgsFunction = a.completeNames
	return cmd
}

func (a *app) freeLock(ctx context.Context, c *catalog.Catalog, name string, ifHolders []string, yes bool) error {
	no := func(format string, args ...any) error { return &exit{code: exitNo, err: fmt.Errorf(format, args...)} }
	d, err := c.Show(ctx, name)
	if err != nil {
		return err
	}
	if d == nil {
		return &exit{code: exitNo, err: notHeld(name)}
	}
	var holders []string
	for _, h := range d.HolderList {
		holders = append(holders, h.Holder)
	}
	switch {
	case d.Kind == catalog.Counter:
		return no("%s is a counter with the value %d: Redis does not know who has its permits, so not freed", fault.Quote(name), d.Free)
	case len(ifHolders) == 0 && d.Kind == catalog.Semaphore && len(holders) != 1:
		return no("%d permits of %s are out: choose one with --if-holder", d.Holders, fault.Quote(name))
	case len(ifHolders) == 0 && len(holders) < d.Holders:
		return no("%s has %d holders, more than can be shown: not freed", lockNamed(name), d.Holders)
	case len(ifHolders) == 0:
	case d.Kind == catalog.Semaphore:
		holders = ifHolders
	default:
		for _, h := range holders {
			if !slices.Contains(ifHolders, h) {
				return no("%s is held by %s: not freed", lockNamed(name), shown(h))
			}
		}
	}
	if !yes {
		if err := a.print(a.stderr, describe(d)+catalog.Overlap+"\nFree it? [y/N] "); err != nil {
			return err
		}
		answer := a.answer(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if answer != "y" && answer != "yes" {
			return no("not freed")
		}
	}
	freed, err := c.Free(ctx, name, holders...)
	if err == nil && !freed {
		return no("%s has another holder now, or none: not freed", lockNamed(name))
	}
	if err != nil {
		return err
	}
	return a.print(a.stdout, "freed "+shown(name)+"\n")
}

// answer reads a line of what the user says, until ctx ends.
func (a *app) answer(ctx context.Context) string {
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(a.stdin).ReadString('\n')
		line <- strings.ToLower(strings.TrimSpace(text))
	}()
	select {
	case text := <-line:
		return text
	case <-ctx.Done():
		return ""
	}
}
