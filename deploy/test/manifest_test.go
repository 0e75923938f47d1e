package test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// serviceMonitor is as much of the Prometheus operator's resource as the chart uses.
type serviceMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port, Path, Interval string
		} `json:"endpoints"`
	} `json:"spec"`
}

// decode fails the test unless the manifest is of a known kind and has only fields that the kind has, of their types.
func decode(t *testing.T, kind, manifest string) {
	t.Helper()
	types := map[string]any{
		"apps/v1 Deployment":                      &appsv1.Deployment{},
		"apps/v1 StatefulSet":                     &appsv1.StatefulSet{},
		"batch/v1 Job":                            &batchv1.Job{},
		"policy/v1 PodDisruptionBudget":           &policyv1.PodDisruptionBudget{},
		"v1 Secret":                               &corev1.Secret{},
		"v1 Service":                              &corev1.Service{},
		"monitoring.coreos.com/v1 ServiceMonitor": &serviceMonitor{},
	}
	if types[kind] == nil {
		t.Fatalf("unknown kind %s", kind)
	}
	if err := yaml.UnmarshalStrict([]byte(manifest), types[kind]); err != nil {
		t.Errorf("%s: %v\n%s", kind, err, manifest)
	}
}

func decodeAs[T any](t *testing.T, manifest string) *T {
	t.Helper()
	out := new(T)
	if err := yaml.UnmarshalStrict([]byte(manifest), out); err != nil {
		t.Fatalf("%v\n%s", err, manifest)
	}
	return out
}
