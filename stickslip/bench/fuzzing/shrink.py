"""Delta debugging over a model: parts are taken out as long as it goes on failing in the same way."""

import copy
from collections.abc import Callable
from xml.etree import ElementTree
from xml.etree.ElementTree import Element


def shrink(xml: str, fails: Callable[[str], bool], most: int = 200) -> str:
    """The smallest model found that fails; after it, no element and no attribute can be taken out by itself.

    Args:
        xml: a model that fails
        fails: whether a model still does
        most: models to try
    """
    best, left = ElementTree.fromstring(xml), most
    changed = True
    while changed and left > 0:
        changed = False
        for make in (_without_element, _without_attribute):
            place = 0
            while left > 0:
                trial = make(best, place)
                if trial is None:
                    break
                left -= 1
                if fails(ElementTree.tostring(trial, encoding="unicode")):
                    best, changed = trial, True
                else:
                    place += 1
    return ElementTree.tostring(best, encoding="unicode")


def _without_element(root: Element, place: int) -> Element | None:
    """A copy without an element and all inside, the largest first; None if there are no more."""
    parents = [(parent, child) for parent in root.iter() for child in parent]
    parents.sort(key=lambda pair: -sum(1 for _ in pair[1].iter()))
    if place >= len(parents):
        return None
    order = {id(element): index for index, element in enumerate(root.iter())}
    parent, child = (order[id(element)] for element in parents[place])
    trial = copy.deepcopy(root)
    elements = list(trial.iter())
    elements[parent].remove(elements[child])
    return trial


def _without_attribute(root: Element, place: int) -> Element | None:
    """A copy without an attribute; None if there are no more."""
    attributes = [(index, name) for index, element in enumerate(root.iter()) for name in element.attrib]
    if place >= len(attributes):
        return None
    index, name = attributes[place]
    trial = copy.deepcopy(root)
    del list(trial.iter())[index].attrib[name]
    return trial
