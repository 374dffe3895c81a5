package cli

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/cmd/rlock/internal/catalog"
)

// orders are what a list can be sorted by. Rows that are equal are in the order of their names.
var orders = map[string]func(a, b catalog.Row) int{
	"name":    func(catalog.Row, catalog.Row) int { return 0 },
	"waiting": func(a, b catalog.Row) int { return cmp.Compare(b.Waiters, a.Waiters) },
	"lease":   func(a, b catalog.Row) int { return cmp.Compare(ending(&a), ending(&b)) },
}

// ending returns when a lease ends, if it ends.
func ending(r *catalog.Row) time.Duration {
	if r.Lease < 0 || r.Holders == 0 {
		return 1<<63 - 1
	}
	return r.Lease
}

// ordered sorts the rows for another sink. It keeps all of them.
type ordered struct {
	to   sink
	by   func(a, b catalog.Row) int
	rows []catalog.Row
}

// checkOrder refuses what is no order.
func checkOrder(order string) error {
	if order != "" && orders[order] == nil {
		return usage(errors.New("--sort is name, waiting or lease"))
	}
	return nil
}

// inOrder returns a sink that sorts the rows, or, without an order, the other sink.
func inOrder(to sink, order string) sink {
	if order == "" {
		return to
	}
	if t, ok := to.(*table); ok {
		t.sorted = true
	}
	return &ordered{to: to, by: orders[order]}
}

func (o *ordered) add(row catalog.Row) error {
	o.rows = append(o.rows, row)
	return nil
}

func (o *ordered) end() error {
	slices.SortFunc(o.rows, func(a, b catalog.Row) int { return cmp.Or(o.by(a, b), strings.Compare(a.Name, b.Name)) })
	for _, row := range o.rows {
		if err := o.to.add(row); err != nil {
			return err
		}
	}
	return o.to.end()
}
