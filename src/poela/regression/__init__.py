"""Values by regression: ridges, trees and anybody's regressor, stepwise and by backward induction."""
