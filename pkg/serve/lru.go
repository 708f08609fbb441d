package serve

import "container/heap"

// lru finds the least recently used of things that are used often and evicted rarely: a use changes only the thing's own stamp;
// the heap, ordered by the stamps of when they were put in, catches up when it is asked.
type lru[T any] struct {
	items []lruItem[T]
	stamp func(T) int64 // of the last use; negative: it is gone, or can't be evicted any more
}

type lruItem[T any] struct {
	value T
	used  int64
}

func (l *lru[T]) Len() int           { return len(l.items) }
func (l *lru[T]) Less(i, j int) bool { return l.items[i].used < l.items[j].used }
func (l *lru[T]) Swap(i, j int)      { l.items[i], l.items[j] = l.items[j], l.items[i] }
func (l *lru[T]) Push(x any)         { l.items = append(l.items, x.(lruItem[T])) }
func (l *lru[T]) Pop() any {
	x := l.items[len(l.items)-1]
	l.items = l.items[:len(l.items)-1]
	return x
}

// add puts a thing in.
func (l *lru[T]) add(v T) { heap.Push(l, lruItem[T]{v, l.stamp(v)}) }

// evict calls try with one thing after the other, least recently used first, until done says so. What try refuses stays.
func (l *lru[T]) evict(done func() bool, try func(T) bool) {
	var refused []T
	for !done() && len(l.items) > 0 {
		it := heap.Pop(l).(lruItem[T])
		switch now := l.stamp(it.value); {
		case now < 0:
		case now != it.used:
			l.add(it.value)
		case !try(it.value):
			refused = append(refused, it.value)
		}
	}
	for _, v := range refused {
		l.add(v)
	}
}
