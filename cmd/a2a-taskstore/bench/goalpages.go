package bench

import (
	"cmp"
	"math"
	"slices"
)

// largestOfSmallest is the p50 of a page of the largest store as a multiple of that of the smallest, by backend and variant.
func largestOfSmallest(r *Report) []finding {
	key := func(c Case) Case { return Case{Backend: c.Backend, Variant: c.Variant} }
	return acrossPages(r, key, func(pages []*Result) finding {
		slices.SortFunc(pages, func(a, b *Result) int { return cmp.Compare(a.Tasks, b.Tasks) })
		largest := pages[len(pages)-1]
		if len(pages) < 2 || largest.Variant == pageTotal { // a total may count
			return finding{value: math.NaN()}
		}
		return finding{largest.text(), median(largest.values(P50)) / median(pages[0].values(P50))}
	})
}

// deepOfFirst is the p50 of a deep page as a multiple of that of the first, by backend and number of tasks.
func deepOfFirst(r *Report) []finding {
	key := func(c Case) Case { return Case{Backend: c.Backend, Tasks: c.Tasks} }
	return acrossPages(r, key, func(pages []*Result) finding {
		out, first := finding{value: math.NaN()}, math.NaN()
		for _, p := range pages {
			switch p.Variant {
			case pageFirst:
				first = median(p.values(P50))
			case pageDeep:
				out = finding{p.text(), median(p.values(P50))}
			}
		}
		out.value /= first
		return out
	})
}

// acrossPages evaluates groups of the service's pages.
func acrossPages(r *Report, key func(Case) Case, value func([]*Result) finding) []finding {
	groups := map[Case][]*Result{}
	var order []Case
	for i := range r.Results {
		res := &r.Results[i]
		if res.Workload != "w5" || res.System != Service {
			continue
		}
		k := key(res.Case)
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], res)
	}
	var out []finding
	for _, k := range order {
		out = append(out, value(groups[k]))
	}
	return out
}
