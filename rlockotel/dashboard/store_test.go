package dashboard

import (
	"context"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// store keeps samples in memory. That of Prometheus needs the client libraries of every cloud, which take a minute to compile.
type store struct {
	storage.MockQuerier
	series map[string]*storage.SeriesEntry // by their labels
	of     map[*storage.SeriesEntry]chunks.SampleSlice
}

var _ storage.Queryable = (*store)(nil)

func newStore() *store {
	return &store{series: make(map[string]*storage.SeriesEntry), of: make(map[*storage.SeriesEntry]chunks.SampleSlice)}
}

// add adds a sample, which must be later than the others of its series.
func (s *store) add(of labels.Labels, at int64, value float64) {
	series, ok := s.series[of.String()]
	if !ok {
		series = &storage.SeriesEntry{Lset: of}
		series.SampleIteratorFn = func(chunkenc.Iterator) chunkenc.Iterator { return storage.NewListSeriesIterator(s.of[series]) }
		s.series[of.String()] = series
	}
	s.of[series] = append(s.of[series], sample{at, value})
}

// Querier implements [storage.Queryable]. The engine leaves out by itself what is outside of its time.
func (s *store) Querier(_, _ int64) (storage.Querier, error) { return s, nil }

func (s *store) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	found := &set{}
	for _, series := range s.series {
		if matches(series.Lset, matchers) {
			found.all = append(found.all, series)
		}
	}
	return found
}

func matches(series labels.Labels, matchers []*labels.Matcher) bool {
	for _, m := range matchers {
		if !m.Matches(series.Get(m.Name)) {
			return false
		}
	}
	return true
}

// set is a [storage.SeriesSet].
type set struct {
	all  []storage.Series
	next int
}

func (s *set) Next() bool                      { s.next++; return s.next <= len(s.all) }
func (s *set) At() storage.Series              { return s.all[s.next-1] }
func (*set) Err() error                        { return nil }
func (*set) Warnings() annotations.Annotations { return nil }

// sample is a [chunks.Sample] of a number.
type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                    { return s.at }
func (sample) ST() int64                     { return 0 }
func (s sample) F() float64                  { return s.value }
func (sample) H() *histogram.Histogram       { return nil }
func (sample) FH() *histogram.FloatHistogram { return nil }
func (sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample         { return s }
