module moldau/conformance/jobs

go 1.24
