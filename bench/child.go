package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
)

// child runs one cell, or one process of it, and writes the outcome as JSON.
func child(ctx context.Context, text string, out io.Writer) error {
	var c Cell
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	var o Outcome
	if err := o.run(ctx, c); err != nil {
		o = Outcome{Error: err.Error()}
	}
	return json.NewEncoder(out).Encode(o)
}

func (o *Outcome) run(ctx context.Context, c Cell) error {
	e, ok := entrantNamed(c.Library)
	if !ok {
		return fmt.Errorf("no library %q", c.Library)
	}
	open := e.open
	if c.Fleet {
		open = func(c Cell) (Library, error) { return openFleet(e, c) }
	}
	lib, err := open(c)
	if err != nil {
		return err
	}
	switch c.Scenario {
	case "S1", "S13", "S15":
		o.Metrics, err = runPair(ctx, c, lib)
	case "S2", "S3", "S4", "S8", "S9", "S10", "S11", "S14":
		o.Tally, err = runLoops(ctx, c, lib)
	case "S5":
		o.Tally, err = runPassing(ctx, c, lib)
	case "S12":
		o.Tally, err = runFaulty(ctx, c, lib)
	case "S6":
		o.Metrics, err = runHeld(ctx, c, lib)
	case "S7":
		o.Metrics, err = runWaiters(ctx, c, lib)
	default:
		err = fmt.Errorf("no scenario %q", c.Scenario)
	}
	return err
}
