package main

import (
	"fmt"
	"slices"
)

// joined says how well two devices are joined: NVLink within a pair and within a quad, PCIe across.
func joined(a, b string) int {
	first, second := number(a), number(b)
	switch {
	case first/2 == second/2:
		return 100
	case first/4 == second/4:
		return 50
	default:
		return 10
	}
}

func number(id string) int {
	var found int
	if _, err := fmt.Sscanf(id, "gpu-%d", &found); err != nil {
		return -1
	}
	return found
}

// prefer chooses `size` devices, `must` among them: of every first device, each time the one that is joined best to those
// chosen; of all such choices the best joined one. Of equals the one with the fewest free neighbours left behind.
func prefer(available, must []string, size int) []string {
	available = slices.Clone(available)
	slices.SortFunc(available, func(a, b string) int { return number(a) - number(b) })
	best, bestScore := []string(nil), -1<<62
	for _, first := range available {
		chosen := slices.Clone(must)
		if len(chosen) < size && !slices.Contains(chosen, first) {
			chosen = append(chosen, first)
		}
		for len(chosen) < size {
			chosen = append(chosen, nearest(available, chosen))
		}
		if score := size*size*1000*within(chosen) - leftBehind(available, chosen); score > bestScore {
			best, bestScore = chosen, score
		}
	}
	return best
}

func nearest(available, chosen []string) string {
	best, bestScore := "", -1
	for _, one := range available {
		if slices.Contains(chosen, one) {
			continue
		}
		score := 0
		for _, other := range chosen {
			score += joined(one, other)
		}
		if score > bestScore {
			best, bestScore = one, score
		}
	}
	return best
}

func within(chosen []string) int {
	sum := 0
	for i := range chosen {
		for j := range i {
			sum += joined(chosen[i], chosen[j])
		}
	}
	return sum
}

func leftBehind(available, chosen []string) int {
	sum := 0
	for _, one := range available {
		if slices.Contains(chosen, one) {
			continue
		}
		for _, other := range chosen {
			sum += joined(one, other)
		}
	}
	return sum
}
