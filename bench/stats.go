package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// median returns the median of the values, or NaN if there are none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// summary returns the figure that stands for those of all rounds: the median, or the worst one.
func summary(values []float64, worst, lowIsGood bool) float64 {
	switch {
	case !worst || len(values) == 0:
		return median(values)
	case lowIsGood:
		return slices.Max(values)
	default:
		return slices.Min(values)
	}
}

// Waits is a histogram of durations with buckets 2 % wide. Histograms of goroutines and processes can be merged.
type Waits map[int]int

const bucketGrowth = 1.02

// add counts a duration.
func (w Waits) add(d time.Duration) {
	w[int(math.Log(float64(max(d, 1)))/math.Log(bucketGrowth))]++
}

// merge adds the counts of another histogram.
func (w Waits) merge(other Waits) {
	for bucket, n := range other {
		w[bucket] += n
	}
}

// quantile returns the quantile of the durations, in the given unit, or NaN if there are none.
func (w Waits) quantile(share float64, unit time.Duration) float64 {
	total := 0
	buckets := make([]int, 0, len(w))
	for bucket, n := range w {
		buckets = append(buckets, bucket)
		total += n
	}
	if total == 0 {
		return math.NaN()
	}
	slices.Sort(buckets)
	need := int(math.Ceil(share * float64(total)))
	seen := 0
	for _, bucket := range buckets {
		if seen += w[bucket]; seen >= need {
			return math.Pow(bucketGrowth, float64(bucket)+0.5) / float64(unit)
		}
	}
	return math.NaN() // not reached: the counts add up to the total
}

// spread returns the largest count divided by the smallest. It is infinite if the smallest is zero.
func spread(counts []int64) float64 {
	if len(counts) == 0 {
		return math.NaN()
	}
	return float64(slices.Max(counts)) / float64(slices.Min(counts))
}

// samples holds the metrics of one size, by library and then by round. A round in which a library failed is nil.
type samples map[string][]Metrics

// values returns a library's figures in all rounds.
func (s samples) values(library, metric string) []float64 {
	var values []float64
	for _, m := range s[library] {
		if v, ok := m[metric]; ok && !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	return values
}

// ratio returns the median ratio of a library's figure to the base's, over the rounds in which both have one. Both were
// measured within a minute, so load on the machine hit both.
func (s samples) ratio(library, base, metric string) float64 {
	return s.ratioTo(library, metric, func(round int) float64 { return s.at(base, round, metric) })
}

// ratioRange returns the smallest and the largest of the ratios to the floor, as text. The ratios of the floor itself are those to its
// own median. The text is empty for a single round.
func (s samples) ratioRange(library, metric string) string {
	base := func(round int) float64 { return s.at(floor, round, metric) }
	if library == floor {
		own := median(s.values(floor, metric))
		base = func(int) float64 { return own }
	}
	ratios := s.ratios(library, metric, base)
	if len(ratios) < 2 {
		return ""
	}
	return fmt.Sprintf(" (%.2f to %.2f)", slices.Min(ratios), slices.Max(ratios))
}

// ratioToBest is like ratio. Its base in each round is the best of several libraries.
func (s samples) ratioToBest(library string, others []string, metric string, lowIsGood bool) float64 {
	return s.ratioTo(library, metric, func(round int) float64 {
		best := math.NaN()
		for _, other := range others {
			v := s.at(other, round, metric)
			if math.IsNaN(v) || !math.IsNaN(best) && (v < best) != lowIsGood {
				continue
			}
			best = v
		}
		return best
	})
}

func (s samples) ratioTo(library, metric string, base func(round int) float64) float64 {
	return median(s.ratios(library, metric, base))
}

// ratios returns the finite ratios of all rounds.
func (s samples) ratios(library, metric string, base func(round int) float64) []float64 {
	var ratios []float64
	for round := range s[library] {
		if r := s.at(library, round, metric) / base(round); !math.IsNaN(r) && !math.IsInf(r, 0) {
			ratios = append(ratios, r)
		}
	}
	return ratios
}

// at returns a library's figure in a round, or NaN if there is none.
func (s samples) at(library string, round int, metric string) float64 {
	if rounds := s[library]; round < len(rounds) {
		if v, ok := rounds[round][metric]; ok {
			return v
		}
	}
	return math.NaN()
}

// compareToFIFO adds mFIFO. In a queue, the last waiter waits until all others have had their turn.
func (s samples) compareToFIFO(waiters int) {
	for library, rounds := range s {
		for round, m := range rounds {
			ideal := float64(waiters-1) / s.at(floor, round, mHandOffs) * 1000
			if wait, ok := m[mWait99]; ok && library != floor && !math.IsNaN(ideal) {
				m[mFIFO] = wait / ideal
			}
		}
	}
}
