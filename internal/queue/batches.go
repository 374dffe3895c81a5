package queue

// Batches divides items into batches of one sort each, and of at most size items. sortOf returns the sort of an item, and
// whether it is a batch of its own. The order of the items stays.
func Batches[B ~[]T, T any, S comparable](items B, size int, sortOf func(T) (sort S, alone bool)) []B {
	open := make(map[S]int) // the index of the sort's unfilled batch
	var all []B
	for _, item := range items {
		sort, alone := sortOf(item)
		i, ok := open[sort]
		if !ok || alone || len(all[i]) == size {
			i = len(all)
			if !alone {
				open[sort] = i
			}
			all = append(all, nil)
		}
		all[i] = append(all[i], item)
	}
	return all
}
