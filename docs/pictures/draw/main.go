// Command draw draws the pictures of the guide that no run is needed for, as SVG. From the root of the repository:
//
//	go run ./docs/pictures/draw
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run("docs"); err != nil {
		fmt.Fprintln(os.Stderr, "draw:", err)
		os.Exit(1)
	}
}

// run draws all pictures into the documents' directory.
func run(docs string) error {
	all, err := pictures(docs)
	if err != nil {
		return err
	}
	for _, p := range all {
		if err := os.WriteFile(filepath.Join(docs, "pictures", p.file+".svg"), p.svg(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pictures returns all pictures. The figures in them are from the documents.
func pictures(docs string) ([]*picture, error) {
	figures, err := readWaits(filepath.Join(docs, "benchmarks.md"))
	if err != nil {
		return nil, err
	}
	return []*picture{parties(), lease(), contexts(), fencing(), choosing(), waits(figures)}, nil
}
